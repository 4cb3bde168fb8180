export default {
  title: () => 'Skills',
  mount(root, params, app) {
    app.dom.fill(root, app.h('h1', null, 'Skills'));
    return () => {};
  },
};
