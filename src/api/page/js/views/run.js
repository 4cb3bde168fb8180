export default {
  title: () => 'Run',
  mount(root, params, app) {
    app.dom.fill(root, app.h('h1', null, 'Run'));
    return () => {};
  },
};
