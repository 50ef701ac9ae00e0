package oracles

import (
	"encoding/base64"
	"maps"
	"slices"
	"strings"
	"testing"

	karpenterv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/aws/karpenter-provider-aws/pkg/providers/amifamily/bootstrap"
	"github.com/google/go-cmp/cmp"
	"github.com/pelletier/go-toml/v2"
	corev1 "k8s.io/api/core/v1"
)

// purpose is a difference to Karpenter that is on purpose.
type purpose struct {
	pair
	reason string
}

// everywhere are the differences in the user data of a family, whatever the user wrote.
func everywhere(family string) map[string]purpose {
	found := map[string]purpose{
		"taints/stratos.sh/standby/NoSchedule": {pair{"", nil},
			"no pod lands before Stratos has seen the Node; Karpenter leaves that to a startup taint of the user"},
		"taints/dedicated/NoExecute": {pair{"web", "web,other"},
			"of two taints with one key and effect the first is kept, because the API server refuses a Node with both"},
	}
	if family == "al2023" {
		maps.Copy(found, map[string]purpose{
			"flags/--eviction-hard": {pair{"memory.available<5%", nil},
				"Stratos has flags in kubeletExtraArgs, Karpenter has fields; the flag beats the configuration"},
			"kubelet/evictionHard/memory.available": {pair{"100Mi", "5%"},
				"the same: the flag of the line above replaces nodeadm's own values"},
			"flags/--node-status-update-frequency": {pair{"10s", nil}, "Karpenter has no field for it"},
		})
	}
	return found
}

// inOne are the differences of one golden file.
func inOne() map[string]map[string]purpose {
	return map[string]map[string]purpose{
		"al2023/nodeconfigs": {"kubelet/podPidsLimit": {pair{2000.0, 1000.0},
			"nodeadm reads one document of a part, so Stratos makes a part of each; Karpenter loses the second"}},
	}
}

// refused are user data that Karpenter, or nodeadm after it, does not take.
func refused() map[string]string {
	return map[string]string{
		// Karpenter takes all YAML that is no MIME for a NodeConfig.
		"al2023/cloud-config": "Object 'Kind' is missing",
		// Karpenter knows one address of a DNS server, Bottlerocket a list too.
		"bottlerocket/toml": "cannot decode TOML array into struct field",
	}
}

// options say to Karpenter what the golden files were made with, without what Stratos adds itself.
func options(user string) bootstrap.Options {
	certificates, cidr, pods := ca, serviceCIDR, int32(maxPods)
	return bootstrap.Options{
		ClusterName: clusterName, ClusterEndpoint: endpoint, CABundle: &certificates, ClusterCIDR: &cidr,
		KubeletConfig: &karpenterv1.KubeletConfiguration{
			MaxPods: &pods, ClusterDNS: []string{clusterDNS},
			EvictionHard: map[string]string{"memory.available": "5%"},
		},
		Labels: nodeLabels(), CustomUserData: &user,
		Taints: []corev1.Taint{
			{Key: "dedicated", Value: "web", Effect: corev1.TaintEffectNoSchedule},
			{Key: "dedicated", Value: "web", Effect: corev1.TaintEffectNoExecute},
			{Key: "dedicated", Value: "other", Effect: corev1.TaintEffectNoExecute},
		},
	}
}

// bootstrapped is the user data that Karpenter writes.
func bootstrapped(t *testing.T, by bootstrap.Bootstrapper) (string, error) {
	t.Helper()
	encoded, err := by.Script(t.Context())
	if err != nil {
		return "", err
	}
	text, err := base64.StdEncoding.DecodeString(encoded)
	return string(text), err
}

func TestAL2023JoinsAsWithKarpenter(t *testing.T) {
	for _, g := range goldens(t, "al2023") {
		t.Run(g.name, func(t *testing.T) {
			ours, err := configure(t, g.text)
			if err != nil {
				t.Fatal(err)
			}
			text, err := bootstrapped(t, bootstrap.Nodeadm{Options: options(g.user)})
			if err != nil {
				t.Fatal(err)
			}
			theirs, err := configure(t, text)
			if isRefused(t, "al2023/"+g.name, err) {
				return
			}
			compare(t, "al2023", g.name, inEffect(ours), inEffect(theirs))
		})
	}
}

// inEffect is what counts on the node, in which the order of taints does not.
func inEffect(n node) map[string]any {
	kubelet := maps.Clone(n.kubelet)
	taints := map[string][]string{}
	list, _ := kubelet["registerWithTaints"].([]any)
	for _, entry := range list {
		taint := entry.(map[string]any)
		value, _ := taint["value"].(string)
		id := taint["key"].(string) + "/" + taint["effect"].(string)
		taints[id] = append(taints[id], value)
	}
	delete(kubelet, "registerWithTaints")
	return map[string]any{
		"cluster": n.spec["cluster"], "containerd": n.spec["containerd"], "instance": n.spec["instance"],
		"kubelet": kubelet, "flags": n.flags, "labels": n.labels, "taints": joinedValues(taints),
	}
}

func joinedValues(taints map[string][]string) map[string]any {
	joined := map[string]any{}
	for id, values := range taints {
		joined[id] = strings.Join(values, ",")
	}
	return joined
}

func TestBottlerocketHasTheSettingsOfKarpenter(t *testing.T) {
	for _, g := range goldens(t, "bottlerocket") {
		t.Run(g.name, func(t *testing.T) {
			o := options(g.user)
			o.KubeletConfig.EvictionHard = nil // the golden files have none
			text, err := bootstrapped(t, bootstrap.Bottlerocket{Options: o})
			if isRefused(t, "bottlerocket/"+g.name, err) {
				return
			}
			compare(t, "bottlerocket", g.name, settings(t, g.text), settings(t, text))
		})
	}
}

// settings reads TOML and takes the taints out of their lists.
func settings(t *testing.T, text string) map[string]any {
	t.Helper()
	all := map[string]any{}
	if err := toml.Unmarshal([]byte(text), &all); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	kubernetes := all["settings"].(map[string]any)["kubernetes"].(map[string]any)
	taints := map[string][]string{}
	for key, list := range kubernetes["node-taints"].(map[string]any) {
		for _, entry := range list.([]any) {
			value, effect, _ := strings.Cut(entry.(string), ":")
			taints[key+"/"+effect] = append(taints[key+"/"+effect], value)
		}
	}
	delete(kubernetes, "node-taints")
	all["taints"] = joinedValues(taints)
	return all
}

// isRefused wants the error that the table says, and no other.
func isRefused(t *testing.T, name string, err error) bool {
	t.Helper()
	words, wanted := refused()[name]
	if wanted != (err != nil) || err != nil && !strings.Contains(err.Error(), words) {
		t.Fatalf("%s: got the error %v, want %q", name, err, words)
	}
	return wanted
}

// compare wants the differences that are on purpose, and no other.
func compare(t *testing.T, family, name string, ours, theirs map[string]any) {
	t.Helper()
	want := map[string]pair{}
	for _, table := range []map[string]purpose{everywhere(family), inOne()[family+"/"+name]} {
		for path, p := range table {
			want[path] = p.pair
			t.Logf("on purpose: %s: %s", path, p.reason)
		}
	}
	if diff := cmp.Diff(want, differences(t, ours, theirs)); diff != "" {
		t.Errorf("differences to Karpenter (-on purpose +found):\n%s", diff)
	}
}

// TestTablesNameGoldenFiles keeps the tables from naming files that are gone.
func TestTablesNameGoldenFiles(t *testing.T) {
	var known []string
	for _, family := range []string{"al2023", "bottlerocket"} {
		for _, g := range goldens(t, family) {
			known = append(known, family+"/"+g.name)
		}
	}
	for _, name := range slices.Concat(slices.Collect(maps.Keys(inOne())), slices.Collect(maps.Keys(refused()))) {
		if !slices.Contains(known, name) {
			t.Errorf("there is no golden file %s", name)
		}
	}
}
