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
    {
      type: 'category',
      label: 'How to',
      collapsed: false,
      items: ['tasks', 'plugin', 'gitops', 'karpenter', 'cluster-stacks'],
    },
    {
      type: 'category',
      label: 'Operations',
      collapsed: false,
      items: ['operate', 'slow-starts', 'check', 'alerts', 'outages', 'restarts'],
    },
    {
      type: 'category',
      label: 'Set up',
      items: ['scheduler', 'webhook', 'certificates', 'rbac', 'aws', 'choosing-types', 'images', 'limits'],
    },
    { type: 'category', label: 'Look up', items: ['api', 'flags', 'names', 'metrics'] },
    { type: 'category', label: 'Versions', items: ['versions', 'upgrade'] },
    { type: 'category', label: 'Questions', items: ['faq', 'comparison'] },
  ],
  build: [
    'development', 'stack-development', 'filter', 'lifecycle', 'model', 'performance', 'acceptance', 'reliability',
    'measures', 'release',
  ],
};
