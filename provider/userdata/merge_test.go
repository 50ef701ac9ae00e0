package userdata

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

// goldenUpdateEnv, set to 1, rewrites testdata instead of comparing with it.
const goldenUpdateEnv = "STRATOS_UPDATE_GOLDEN"

// testCA is base64 of a certificate in PEM. No test looks into the certificate.
const testCA = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1BPT0KLS0tLS1FTkQgQ0VSVElGSUNBVEUtLS0tLQo="

func testCluster() Cluster {
	return Cluster{
		Name: "c", Endpoint: "https://ABC.gr7.eu-west-1.eks.amazonaws.com", CertificateAuthority: testCA,
		ServiceCIDR: "172.20.0.0/16",
	}
}

func testKubelet() Kubelet {
	return Kubelet{
		Labels: map[string]string{"stratos.sh/pool": "web", "example.com/tier": "web", "topology.kubernetes.io/zone": "a"},
		Taints: []corev1.Taint{
			{Key: "stratos.sh/standby", Effect: corev1.TaintEffectNoSchedule},
			{Key: "dedicated", Value: "web", Effect: corev1.TaintEffectNoSchedule},
			{Key: "dedicated", Value: "web", Effect: corev1.TaintEffectNoExecute},
			{Key: "dedicated", Value: "other", Effect: corev1.TaintEffectNoExecute},
		},
		MaxPods: 58,
	}
}

func TestMergesAsTheGoldenFilesShow(t *testing.T) {
	families := map[string]func(Cluster, Kubelet, string) (string, error){
		"al2023": AL2023, "bottlerocket": Bottlerocket, "kubeadm": byKubeadm,
	}
	for family, write := range families {
		inputs, err := filepath.Glob(filepath.Join("testdata", family, "*.in"))
		if err != nil || len(inputs) == 0 {
			t.Fatalf("testdata of %s: %d inputs, %v", family, len(inputs), err)
		}
		for _, input := range inputs {
			t.Run(input, func(t *testing.T) {
				user, err := os.ReadFile(input)
				if err != nil {
					t.Fatal(err)
				}
				k := testKubelet()
				if family != "bottlerocket" {
					k.ExtraArgs = []string{"--node-status-update-frequency=10s", "--eviction-hard=memory.available<5%"}
				}
				got, err := write(testCluster(), k, string(user))
				if err != nil {
					t.Fatal(err)
				}
				compareGolden(t, strings.TrimSuffix(input, ".in")+".golden", got)
			})
		}
	}
}

// byKubeadm is Kubeadm with the token that stands for one. Nothing but the endpoint and the
// certificate authority of the cluster is known.
func byKubeadm(c Cluster, k Kubelet, user string) (string, error) {
	return Kubeadm(Cluster{Endpoint: c.Endpoint, CertificateAuthority: c.CertificateAuthority}, k, PlaceholderToken, user)
}

func compareGolden(t *testing.T, path, got string) {
	t.Helper()
	if os.Getenv(goldenUpdateEnv) == "1" {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v (run with %s=1 to write it)", err, goldenUpdateEnv)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("differs from %s (-want +got):\n%s", path, diff)
	}
}

func TestWritesNothingThatItDoesNotKnow(t *testing.T) {
	text, err := AL2023(testCluster(), Kubelet{}, "")
	if err != nil {
		t.Fatal(err)
	}
	parts := readBack(t, text)
	if config := parts[len(parts)-1].text(); strings.Contains(config, "kubelet") {
		t.Errorf("without labels, taints and flags there is nothing to say of the kubelet:\n%s", config)
	}
	c := testCluster()
	c.ServiceCIDR = ""
	text, err = Bottlerocket(c, Kubelet{}, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, word := range []string{"cluster-dns-ip", "max-pods", "node-labels", "node-taints"} {
		if strings.Contains(text, word) {
			t.Errorf("%s stands in\n%s", word, text)
		}
	}
}

// TestKeepsEachByteOfTheUser reads the merged text as nodeadm and cloud-init do.
func TestKeepsEachByteOfTheUser(t *testing.T) {
	const config = "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\n"
	tests := map[string]struct {
		user string
		want []string
	}{
		"a script without a last line feed":          {"#!/bin/sh\necho", []string{"#!/bin/sh\necho"}},
		"a script with empty lines at its end":       {"#!/bin/sh\n\n\n", []string{"#!/bin/sh\n\n\n"}},
		"a script with carriage returns":             {"#!/bin/sh\r\necho\r\n", []string{"#!/bin/sh\r\necho\r\n"}},
		"a script that ends with a carriage return":  {"#!/bin/sh\necho\r", []string{"#!/bin/sh\necho\r"}},
		"a script with a zero byte and an umlaut":    {"#!/bin/sh\necho ü\x00", []string{"#!/bin/sh\necho ü\x00"}},
		"cloud-config after empty lines":             {"\n\n#cloud-config\n", []string{"\n\n#cloud-config\n"}},
		"a NodeConfig with carriage returns":         {"apiVersion: node.eks.aws/v1\r\nkind: NodeConfig\r\n", []string{"apiVersion: node.eks.aws/v1\r\nkind: NodeConfig\r\n"}},
		"a NodeConfig that ends with a new document": {config + "---\n# nothing\n", []string{config + "---\n# nothing\n"}},
		"two NodeConfigs":                            {config + "---\n" + config, []string{config, "---\n" + config}},
		"MIME with carriage returns, as Terraform writes it": {
			"Content-Type: multipart/mixed; boundary=\"B\"\nMIME-Version: 1.0\r\n\r\n--B\r\nContent-Type: text/x-shellscript\r\n\r\n" +
				"#!/bin/sh\necho\n\r\n--B\r\nContent-Type: text/cloud-config\r\n\r\n#cloud-config\r\n--B--\r\n",
			[]string{"#!/bin/sh\necho\n", "#cloud-config"},
		},
		"MIME with an empty part": {
			"MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=B\n\n--B\nContent-Type: text/x-shellscript\n\n\n--B--\n",
			[]string{""},
		},
		"MIME with two NodeConfigs in one part": {
			"MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=B\n\n--B\nContent-Type: application/node.eks.aws\n\n" +
				config + "---\n" + config + "\n--B--\n",
			[]string{config, "---\n" + config},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			merged, err := AL2023(testCluster(), testKubelet(), test.user)
			if err != nil {
				t.Fatal(err)
			}
			parts := readBack(t, merged)
			var got []string
			for _, p := range parts[1 : len(parts)-1] {
				got = append(got, p.text())
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("the user's parts (-want +got):\n%s\nof\n%s", diff, merged)
			}
		})
	}
}

func TestClusterDNSIsTheTenthAddress(t *testing.T) {
	for cidr, want := range map[string]string{
		"172.20.0.0/16": "172.20.0.10", "10.100.0.0/16": "10.100.0.10", "10.100.3.7/16": "10.100.0.10",
		"fd30:1c53:5f8a::/108": "fd30:1c53:5f8a::a", "": "", "nonsense": "",
	} {
		if got := clusterDNS(cidr); got != want {
			t.Errorf("%q: got %q, want %q", cidr, got, want)
		}
	}
}
