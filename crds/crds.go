// Package crds holds the CustomResourceDefinitions of Stratos, as controller-gen writes them from
// crds/v1alpha1.
package crds

import (
	"bytes"
	"embed"
	"fmt"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

//go:embed stratos.sh_*.yaml
var files embed.FS

// YAML returns all definitions as one multi-document stream, in the order of their names; each
// document begins with "---".
func YAML() []byte {
	var out bytes.Buffer
	for _, document := range documents() {
		if !bytes.HasPrefix(document, []byte("---\n")) {
			out.WriteString("---\n")
		}
		out.Write(document)
	}
	return out.Bytes()
}

// All returns the definitions in the order of their names, for the caller to change. An error means
// that the generated files do not fit apiextensions.k8s.io/v1: an unknown or doubled field is one,
// because a rule with a typo would silently not hold.
func All() ([]*apiextensionsv1.CustomResourceDefinition, error) {
	decoded, err := decode()
	if err != nil {
		return nil, err
	}
	var all []*apiextensionsv1.CustomResourceDefinition
	for _, crd := range decoded {
		all = append(all, crd.DeepCopy())
	}
	return all, nil
}

// decode decodes them once, because it takes a hundred times as long as a copy.
//
//nolint:gochecknoglobals // decoded from what is embedded, it never changes
var decode = sync.OnceValues(func() ([]*apiextensionsv1.CustomResourceDefinition, error) {
	var all []*apiextensionsv1.CustomResourceDefinition
	for _, document := range documents() {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(document, crd); err != nil {
			return nil, fmt.Errorf("decoding an embedded CustomResourceDefinition: %w", err)
		}
		all = append(all, crd)
	}
	return all, nil
})

// documents returns the embedded files in the order of their names, which embed.FS keeps sorted.
func documents() [][]byte {
	entries, err := files.ReadDir(".")
	if err != nil {
		panic("reading the root of an embedded file system: " + err.Error()) // cannot fail: it was built into the binary
	}
	var out [][]byte
	for _, entry := range entries {
		document, err := files.ReadFile(entry.Name())
		if err != nil {
			panic("reading an embedded file that was listed: " + err.Error())
		}
		out = append(out, document)
	}
	return out
}
