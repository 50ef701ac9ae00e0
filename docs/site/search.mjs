// The search looks for words as they are typed, while its index has them without the punctuation at
// their ends: "pending?" finds nothing. This plugin puts words.mjs in the place of the module that
// splits what is typed. Where an update of the search has no such module any more, `make site-test`
// fails, because its questions end as people type them.
import path from 'node:path';

const search = 'node_modules/@easyops-cn/docusaurus-search-local/dist/client/client';

export default function trimmedWords({ siteDir }) {
  return {
    name: 'trimmed-words',
    configureWebpack: () => ({
      resolve: {
        alias: { [path.join(siteDir, search, 'utils/tokenize.js')]: path.join(siteDir, 'site/words.mjs') },
      },
    }),
  };
}
