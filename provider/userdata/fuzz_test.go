package userdata

import (
	"errors"
	"io"
	"maps"
	"mime"
	"mime/multipart"
	"net/mail"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/pelletier/go-toml/v2"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// strictNodeConfig has the fields that Stratos writes, and no other.
type strictNodeConfig struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Spec       struct {
		Cluster struct {
			Name                 string `json:"name"`
			APIServerEndpoint    string `json:"apiServerEndpoint"`
			CertificateAuthority []byte `json:"certificateAuthority"`
			CIDR                 string `json:"cidr"`
		} `json:"cluster"`
		Kubelet struct {
			Config struct {
				MaxPods            int32          `json:"maxPods"`
				RegisterWithTaints []corev1.Taint `json:"registerWithTaints"`
			} `json:"config"`
			Flags []string `json:"flags"`
		} `json:"kubelet"`
	} `json:"spec"`
}

// readBack reads MIME by the standard library's own readers, as nodeadm does.
func readBack(t *testing.T, merged string) []part {
	t.Helper()
	message, err := mail.ReadMessage(strings.NewReader(merged))
	if err != nil {
		t.Fatalf("%v in\n%s", err, merged)
	}
	_, params, err := mime.ParseMediaType(message.Header.Get("Content-Type"))
	if err != nil {
		t.Fatalf("%v in\n%s", err, merged)
	}
	if n := strings.Count(merged, "\n--"+params["boundary"]); n < 2 {
		t.Fatalf("%d boundaries in\n%s", n, merged)
	}
	reader := multipart.NewReader(message.Body, params["boundary"])
	var parts []part
	for {
		p, err := reader.NextRawPart()
		if err == io.EOF { //nolint:errorlint // wrapped it means that the last boundary is missing
			return parts
		}
		if err != nil {
			t.Fatalf("part %d: %v in\n%s", len(parts)+1, err, merged)
		}
		body, err := io.ReadAll(p)
		if err != nil {
			t.Fatalf("part %d: %v in\n%s", len(parts)+1, err, merged)
		}
		parts = append(parts, part{header: p.Header, body: string(body)})
	}
}

func addInputs(f *testing.F, family string) {
	f.Helper()
	inputs, err := filepath.Glob(filepath.Join("testdata", family, "*.in"))
	if err != nil || len(inputs) == 0 {
		f.Fatalf("%d inputs, %v", len(inputs), err)
	}
	for _, input := range inputs {
		text, err := os.ReadFile(input)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
		f.Add(strings.ReplaceAll(string(text), "\n", "\r\n"))
	}
}

func FuzzAL2023(f *testing.F) {
	addInputs(f, "al2023")
	c, k := testCluster(), testKubelet()
	f.Fuzz(func(t *testing.T, user string) {
		merged, ok := written(t, user, func() (string, error) { return AL2023(c, k, user) })
		if !ok {
			return
		}
		parts := readBack(t, merged)
		own, err := partsOf(user)
		if err != nil {
			t.Fatal(err)
		}
		last := len(parts) - 1
		if diff := cmp.Diff(own, parts[1:last], cmp.AllowUnexported(part{}), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("the user's parts (-want +got):\n%s", diff)
		}
		checkStateFile(t, parts[0].text())
		checkOwnPart(t, parts[last], c, k)
		checkStratosWins(t, parts, c, k)
	})
}

// written wants equal bytes of equal input, and of a refusal that it is made of Problems.
func written(t *testing.T, user string, write func() (string, error)) (string, bool) {
	t.Helper()
	merged, err := write()
	again, repeated := write()
	if merged != again || (err == nil) != (repeated == nil) || err != nil && err.Error() != repeated.Error() {
		t.Fatalf("%q gives one time %q %v, the next %q %v", user, merged, err, again, repeated)
	}
	if err == nil {
		return merged, true
	}
	problem := Problem{}
	if !errors.As(err, &problem) || problem.Field == "" || problem.Reason == "" || merged != "" {
		t.Fatalf("%q is refused by %#v, with the text %q", user, err, merged)
	}
	return "", false
}

func checkOwnPart(t *testing.T, p part, c Cluster, k Kubelet) {
	t.Helper()
	var got strictNodeConfig
	if err := yaml.UnmarshalStrict([]byte(p.body), &got); err != nil {
		t.Fatalf("%v in\n%s", err, p.body)
	}
	var want strictNodeConfig
	want.APIVersion, want.Kind = "node.eks.aws/v1alpha1", "NodeConfig"
	want.Spec.Cluster.Name, want.Spec.Cluster.APIServerEndpoint, want.Spec.Cluster.CIDR = c.Name, c.Endpoint, c.ServiceCIDR
	want.Spec.Cluster.CertificateAuthority, _ = decodeCA(c.CertificateAuthority)
	want.Spec.Kubelet.Config.MaxPods = k.MaxPods
	want.Spec.Kubelet.Config.RegisterWithTaints = uniqueTaints(k.Taints)
	want.Spec.Kubelet.Flags = []string{"--node-labels=" + labelsFlag(k.Labels)}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the NodeConfig of Stratos (-want +got):\n%s", diff)
	}
}

// checkStratosWins merges the NodeConfigs as nodeadm does, and reads the flags as the kubelet does.
func checkStratosWins(t *testing.T, parts []part, c Cluster, k Kubelet) {
	t.Helper()
	config, labels, flags := map[string]any{}, map[string]string{}, []flag{}
	var cluster any
	for _, p := range parts {
		if mediaType, err := p.mediaType(); err != nil || mediaType != typeNodeConfig {
			continue
		}
		document, err := readNodeConfig(p.text())
		if err != nil {
			t.Fatal(err)
		}
		maps.Copy(config, document.kubeletConfig)
		flags = append(flags, flagsOf(document.flags)...)
		if own := document.spec["cluster"]; own != nil {
			cluster = own
		}
	}
	for _, f := range flags {
		if fault := flagFault(f.name); fault != "" {
			t.Errorf("%s, but it stands there", fault)
		}
		if f.name == "node-labels" {
			for pair := range strings.SplitSeq(f.value, ",") {
				key, value, _ := strings.Cut(pair, "=")
				labels[key] = value
			}
		}
	}
	for key, value := range k.Labels {
		if labels[key] != value {
			t.Errorf("label %s is %q, not %q", key, labels[key], value)
		}
	}
	if n, taints := config["maxPods"], config["registerWithTaints"].([]any); n != float64(k.MaxPods) ||
		len(taints) != len(uniqueTaints(k.Taints)) {
		t.Errorf("got %v pods and the taints %v", n, taints)
	}
	if got := cluster.(map[string]any)["name"]; got != c.Name {
		t.Errorf("got the cluster %v", cluster)
	}
}

func FuzzKubeadm(f *testing.F) {
	addInputs(f, "kubeadm")
	c, k := testCluster(), testKubelet()
	f.Fuzz(func(t *testing.T, user string) {
		merged, ok := written(t, user, func() (string, error) { return byKubeadm(c, k, user) })
		if !ok {
			return
		}
		parts := readBack(t, merged)
		own, err := partsOf(user)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(own, parts[1:], cmp.AllowUnexported(part{}), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("the user's parts (-want +got):\n%s", diff)
		}
		checkJoinFiles(t, parts[0].text(), c, k)
	})
}

func FuzzBottlerocket(f *testing.F) {
	addInputs(f, "bottlerocket")
	c, k := testCluster(), testKubelet()
	f.Fuzz(func(t *testing.T, user string) {
		merged, ok := written(t, user, func() (string, error) { return Bottlerocket(c, k, user) })
		if !ok {
			return
		}
		got, want := map[string]any{}, map[string]any{}
		if err := toml.Unmarshal([]byte(merged), &got); err != nil {
			t.Fatalf("%v in\n%s", err, merged)
		}
		if err := toml.Unmarshal([]byte(user), &want); err != nil {
			t.Fatal(err)
		}
		kubernetes := inside(inside(want, "settings"), "kubernetes")
		kubernetes["cluster-name"], kubernetes["api-server"] = c.Name, c.Endpoint
		kubernetes["cluster-certificate"], kubernetes["max-pods"] = c.CertificateAuthority, int64(k.MaxPods)
		kubernetes["node-taints"] = map[string]any{
			"dedicated": []any{"web:NoExecute", "web:NoSchedule"}, "stratos.sh/standby": []any{":NoSchedule"},
		}
		if kubernetes["cluster-dns-ip"] == nil {
			kubernetes["cluster-dns-ip"] = "172.20.0.10"
		}
		labels := inside(kubernetes, "node-labels")
		for key, value := range k.Labels {
			labels[key] = value
		}
		if diff := cmp.Diff(want, got, cmpopts.EquateNaNs()); diff != "" {
			t.Errorf("(-want +got):\n%s\nof\n%s", diff, merged)
		}
	})
}

// inside is the table of that name, which is made where it is missing.
func inside(from map[string]any, key string) map[string]any {
	if _, found := from[key]; !found {
		from[key] = map[string]any{}
	}
	return from[key].(map[string]any)
}

// FuzzChecks wants no panic, and the same words each time.
func FuzzChecks(f *testing.F) {
	addInputs(f, "al2023")
	addInputs(f, "bottlerocket")
	addInputs(f, "kubeadm")
	f.Fuzz(func(t *testing.T, user string) {
		args := strings.Fields(user)
		all := func() []Problem {
			refused, warnings := CheckAL2023(user, args)
			refusedToo, warningsToo := CheckBottlerocket(user, args)
			byKubeadm, warnedByKubeadm := CheckKubeadm(user, args)
			return slices.Concat(refused, warnings, refusedToo, warningsToo, byKubeadm, warnedByKubeadm, CheckHandWritten(user),
				CheckCluster(Cluster{Endpoint: user, CertificateAuthority: user, ServiceCIDR: user}))
		}
		found := all()
		if diff := cmp.Diff(found, all()); diff != "" {
			t.Errorf("one time and the next:\n%s", diff)
		}
		for _, p := range found {
			if p.Field == "" || p.Reason == "" {
				t.Errorf("%#v says nothing", p)
			}
		}
	})
}
