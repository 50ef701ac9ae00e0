// linksOutside makes links that leave the folder docs, which are files of the repository, links to
// the repository. Pages link to them as files, so that they can be followed without the site too.
export default function linksOutside({ repository }) {
  const visit = (node) => {
    if ((node.type === 'link' || node.type === 'definition') && outside(node.url)) {
      node.url = `${repository}/blob/main/${node.url.replace(/^(\.\/)?\.\.\//, '')}`;
    }
    (node.children ?? []).forEach(visit);
  };
  return visit;
}

function outside(url) {
  return /^(\.\/)?\.\.\//.test(url);
}
