export default {
  title: () => 'Runs',
  mount(root, params, app) {
    app.dom.fill(root, app.h('h1', null, 'Runs'));
    return () => {};
  },
};
