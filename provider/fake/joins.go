package fake

import (
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider/simcloud"
)

// How machines read their user data. It must not call provider/userdata: that package writes the
// same text, and a mistake of its would pass where its own words read it back.

// kubelet is what a machine's kubelet starts and registers with.
type kubelet struct {
	// refusal is why no kubelet ever reports; empty where one does.
	refusal string
	taints  []corev1.Taint
	labels  map[string]string
	// maxPods is 0 where the type's number stands.
	maxPods int64
	// token is the bootstrap token that it joins with; empty for a kubelet that needs none.
	token string
}

// readUserData tells the families of images apart by the text, because tests launch every text from
// the same images.
//
// A script joins as it always did, whatever it says. Most suites are not about joining and write
// no more than the name of one, and there is no shell here that could run it.
func readUserData(text string, cluster v1alpha1.BootstrapCluster) script {
	parts, err := splitUserData(text)
	if err != nil && strings.Contains(text, nodeConfigType) { // cloud-init reads what nodeadm does not
		return script{kubelet: kubelet{refusal: err.Error()}}
	}
	if len(parts.nodeConfigs) > 0 {
		s := readScript(parts.others)
		s.kubelet = nodeadm(parts.nodeConfigs, cluster)
		s.cni, s.gracefulShutdown = readCNI(text), strings.Contains(text, "shutdownGracePeriod")
		return s
	}
	if joinFile.MatchString(parts.others) {
		s := readScript(parts.others)
		s.kubelet = kubeadm(parts.others, cluster)
		return s
	}
	if isBottlerocket(text) {
		return script{kubelet: bottlerocket(text, cluster), cni: readCNI(text)}
	}
	return readScript(text)
}

// otherCluster says in what the user data differs from the cluster; empty for nothing. A real
// machine would join with a wrong range of Services, but its pods would find no DNS, which nothing
// here looks up.
func otherCluster(said, cluster v1alpha1.BootstrapCluster) string {
	for _, f := range []struct{ what, said, is string }{
		{"name", said.Name, cluster.Name},
		{"endpoint", said.Endpoint, cluster.Endpoint},
		{"range of Services", said.ServiceCIDR, cluster.ServiceCIDR},
	} {
		if f.said != f.is {
			return fmt.Sprintf("the %s of the cluster is %q, not %q", f.what, f.is, f.said)
		}
	}
	if ours := certificates(cluster.CertificateAuthority); !slices.ContainsFunc(certificates(said.CertificateAuthority),
		func(c string) bool { return slices.Contains(ours, c) }) {
		return "the API server's certificate is signed by an authority that the user data does not name"
	}
	return ""
}

func encode(text []byte) string { return base64.StdEncoding.EncodeToString(text) }

// certificates are those of PEM in base64; none where it is something else.
func certificates(encoded string) []string {
	text, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return nil
	}
	var found []string
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == "CERTIFICATE" {
			found = append(found, string(block.Bytes))
		}
	}
	return found
}

// checked is the kubelet, which does not start with labels or taints that it refuses.
func (k kubelet) checked() kubelet {
	for key, value := range k.labels {
		if !isKubeletLabel(key) || len(validation.IsQualifiedName(key))+len(validation.IsValidLabelValue(value)) > 0 {
			return kubelet{refusal: fmt.Sprintf("a kubelet does not start with label %s=%s", key, value)}
		}
	}
	for _, taint := range k.taints {
		effects := []corev1.TaintEffect{corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule,
			corev1.TaintEffectNoExecute}
		if !slices.Contains(effects, taint.Effect) || len(validation.IsQualifiedName(taint.Key)) > 0 {
			return kubelet{refusal: fmt.Sprintf("a kubelet does not start with taint %s", taint.ToString())}
		}
	}
	return k
}

var (
	kubernetesDomain = regexp.MustCompile(`^([^/]*\.)?(kubernetes|k8s)\.io/`)
	// kubeletLabel are the exceptions of k8s.io/kubelet/pkg/apis/well_known_labels.go, with names that
	// no kubelet uses any more.
	kubeletLabel = regexp.MustCompile(`^([^/]*\.)?(kubelet|node)\.kubernetes\.io/|` +
		`^kubernetes\.io/(hostname|os|arch)$|^beta\.kubernetes\.io/(instance-type|os|arch)$|` +
		`^topology\.kubernetes\.io/(zone|region)$|^failure-domain\.beta\.kubernetes\.io/(zone|region)$`)
)

func isKubeletLabel(key string) bool {
	return !kubernetesDomain.MatchString(key) || kubeletLabel.MatchString(key)
}

// taintsOfFlag reads key=value:Effect,key:Effect.
func taintsOfFlag(value string) []corev1.Taint {
	var taints []corev1.Taint
	for _, part := range simcloud.Parts(value, ",") {
		name, effect, _ := strings.Cut(part, ":")
		key, value, _ := strings.Cut(name, "=")
		taints = append(taints, corev1.Taint{Key: key, Value: value, Effect: corev1.TaintEffect(effect)})
	}
	return taints
}
