package fake

import (
	"regexp"
	"strings"

	"github.com/pelletier/go-toml/v2"
	corev1 "k8s.io/api/core/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

var settingsTable = regexp.MustCompile(`(?m)^\s*\[?settings\.`)

// isBottlerocket reports whether the text is of settings, which are no script.
func isBottlerocket(text string) bool {
	return settingsTable.MatchString(text) && !strings.HasPrefix(text, "#!")
}

// bottlerocket starts the kubelet by settings. It reads user data at its first boot only, and user
// data does not change here. It has no shell, so nothing in it powers the machine off. The range of
// Services is not among the settings: Bottlerocket asks EKS for it.
func bottlerocket(text string, cluster v1alpha1.BootstrapCluster) kubelet {
	var doc struct {
		Settings struct {
			Kubernetes struct {
				ClusterName        string              `toml:"cluster-name"`
				APIServer          string              `toml:"api-server"`
				ClusterCertificate string              `toml:"cluster-certificate"`
				NodeLabels         map[string]string   `toml:"node-labels"`
				NodeTaints         map[string][]string `toml:"node-taints"`
				MaxPods            int64               `toml:"max-pods"`
			} `toml:"kubernetes"`
		} `toml:"settings"`
	}
	if err := toml.Unmarshal([]byte(text), &doc); err != nil {
		return kubelet{refusal: "Bottlerocket cannot read its settings: " + err.Error()}
	}
	said := doc.Settings.Kubernetes
	if refusal := otherCluster(v1alpha1.BootstrapCluster{Name: said.ClusterName, Endpoint: said.APIServer,
		CertificateAuthority: said.ClusterCertificate, ServiceCIDR: cluster.ServiceCIDR}, cluster); refusal != "" {
		return kubelet{refusal: refusal}
	}
	k := kubelet{labels: said.NodeLabels, maxPods: said.MaxPods}
	if k.labels == nil {
		k.labels = map[string]string{}
	}
	for key, values := range said.NodeTaints {
		for _, one := range values { // value:Effect
			value, effect, _ := strings.Cut(one, ":")
			k.taints = append(k.taints, corev1.Taint{Key: key, Value: value, Effect: corev1.TaintEffect(effect)})
		}
	}
	return k.checked()
}
