export default {
  title: () => 'Approvals',
  mount(root, params, app) {
    app.dom.fill(root, app.h('h1', null, 'Approvals'));
    return () => {};
  },
};
