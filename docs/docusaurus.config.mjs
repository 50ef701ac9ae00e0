// The documentation site. Its pages are the CommonMark files of this folder, which are as readable
// without it. `npm install && npm start` serves them at http://localhost:3000/stratos/; the search
// needs `npm run build && npm run serve`.
import { themes } from 'prism-react-renderer';
import linksOutside from './site/links.mjs';
import trimmedWords from './site/search.mjs';

const repository = 'https://github.com/stratos-sh/stratos';

export default {
  title: 'Stratos',
  tagline: 'Kubernetes nodes that are warm, stopped, and there in seconds',
  url: 'https://stratos-sh.github.io',
  baseUrl: '/stratos/',
  trailingSlash: false,
  favicon: 'favicon.svg',
  staticDirectories: ['site/static'],
  onBrokenLinks: 'throw',
  onBrokenAnchors: 'throw',
  markdown: {
    format: 'detect',
    mermaid: true,
    hooks: { onBrokenMarkdownLinks: 'throw', onBrokenMarkdownImages: 'throw' },
  },
  presets: [
    [
      'classic',
      {
        docs: {
          path: '.',
          routeBasePath: '/',
          include: ['*.md'],
          sidebarPath: './site/sidebars.mjs',
          beforeDefaultRemarkPlugins: [[linksOutside, { repository }]],
          editUrl: `${repository}/edit/main/docs/`,
        },
        blog: false,
        theme: { customCss: './site/css/custom.css' },
      },
    ],
  ],
  plugins: [trimmedWords],
  themes: [
    '@docusaurus/theme-mermaid',
    [
      '@easyops-cn/docusaurus-search-local',
      { indexBlog: false, docsDir: '.', docsRouteBasePath: '/', hashed: true },
    ],
  ],
  themeConfig: {
    navbar: {
      title: 'Stratos',
      items: [
        { type: 'docSidebar', sidebarId: 'use', label: 'Use', position: 'left' },
        { type: 'docSidebar', sidebarId: 'build', label: 'Build', position: 'left' },
        { href: repository, label: 'GitHub', position: 'right' },
      ],
    },
    colorMode: { respectPrefersColorScheme: true },
    prism: { theme: themes.github, darkTheme: themes.dracula, additionalLanguages: ['bash', 'promql'] },
  },
};
