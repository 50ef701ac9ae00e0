package oracles

import (
	"encoding/json"
	"maps"
	"path/filepath"
	"strings"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/component-base/cli/flag"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"
)

// kubeletConfiguration reads nodeadm's file and the one above it, each strictly, and merges them as
// the kubelet does.
func kubeletConfiguration(t *testing.T, folder string) map[string]any {
	t.Helper()
	base := readFile(t, filepath.Join(folder, "config.json"))
	above := readFile(t, filepath.Join(folder, "config.json.d", "00-nodeadm.conf"))
	decodeStrictly(t, base)
	decodeStrictly(t, above)
	merged, err := jsonpatch.MergePatch([]byte(base), []byte(above))
	if err != nil {
		t.Fatal(err)
	}
	decodeStrictly(t, string(merged))
	var config map[string]any
	if err := json.Unmarshal(merged, &config); err != nil {
		t.Fatal(err)
	}
	return config
}

// decodeStrictly wants a KubeletConfiguration in which each field is known and stands once.
func decodeStrictly(t *testing.T, text string) {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := kubeletv1beta1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	decoder := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
	object, _, err := decoder.Decode([]byte(text), nil, nil)
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	if _, ok := object.(*kubeletv1beta1.KubeletConfiguration); !ok {
		t.Fatalf("%T is no KubeletConfiguration", object)
	}
}

// kubeletFlags reads the environment file of nodeadm. The outer quotes are gone from nodeadm since
// July 2024 (amazon-eks-ami#1880); with them, systemd takes quotes in a flag for the end. Of a flag
// that stands twice the last counts, but labels add up.
func kubeletFlags(t *testing.T, environment string) (flags, labels map[string]any) {
	t.Helper()
	flags, labels = map[string]any{}, map[string]any{}
	nodeLabels := flag.ConfigurationMap{}
	for line := range strings.Lines(environment) {
		line, found := strings.CutPrefix(strings.TrimSpace(line), `NODEADM_KUBELET_ARGS="`)
		if !found {
			continue
		}
		for _, word := range strings.Fields(strings.TrimSuffix(line, `"`)) {
			name, value, found := strings.Cut(strings.ReplaceAll(word, `"`, ""), "=")
			if !found || !strings.HasPrefix(name, "--") {
				t.Fatalf("%q is no flag with a value", word)
			}
			if name == "--node-labels" {
				if err := nodeLabels.Set(value); err != nil {
					t.Fatal(err)
				}
				continue
			}
			flags[name] = value
		}
	}
	for key, value := range maps.All(nodeLabels) {
		labels[key] = value
	}
	return flags, labels
}
