export default {
  title: () => 'Executions',
  mount(root, params, app) {
    app.dom.fill(root, app.h('h1', null, 'Executions'));
    return () => {};
  },
};
