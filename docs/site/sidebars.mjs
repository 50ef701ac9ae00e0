// Use is for those who run Stratos, Build for those who change it. `make verify` wants each page of
// docs in one of the two.
export default {
  use: [
    'README',
    {
      type: 'category',
      label: 'Start',
      collapsed: false,
      items: ['concepts', 'demo', 'kind', 'install'],
    },
    { type: 'category', label: 'Tasks', collapsed: false, items: ['tasks', 'plugin', 'gitops', 'karpenter', 'cluster-stacks'] },
    { type: 'category', label: 'Operate', collapsed: false, items: ['operate', 'check', 'alerts', 'outages', 'restarts'] },
    {
      type: 'category',
      label: 'Set up',
      items: ['scheduler', 'webhook', 'certificates', 'rbac', 'aws', 'images', 'limits'],
    },
    { type: 'category', label: 'Look up', items: ['api', 'names', 'metrics'] },
    { type: 'category', label: 'Versions', items: ['versions', 'upgrade', 'faq'] },
  ],
  build: ['development', 'filter', 'lifecycle', 'model', 'performance', 'acceptance', 'reliability', 'measures', 'release'],
};
