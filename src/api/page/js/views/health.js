export default {
  title: () => 'Health',
  mount(root, params, app) {
    app.dom.fill(root, app.h('h1', null, 'Health'));
    return () => {};
  },
};
