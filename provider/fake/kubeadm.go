package fake

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api/v1"
	"sigs.k8s.io/yaml"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

// joinConfiguration is what counts here of kubeadm's.
type joinConfiguration struct {
	Discovery struct {
		File struct {
			KubeConfigPath string `json:"kubeConfigPath"`
		} `json:"file"`
		TLSBootstrapToken string `json:"tlsBootstrapToken"`
	} `json:"discovery"`
	NodeRegistration struct {
		KubeletExtraArgs []struct {
			Name  string `json:"name"`
			Value string `json:"value"`
		} `json:"kubeletExtraArgs"`
		Taints []corev1.Taint `json:"taints"`
	} `json:"nodeRegistration"`
}

// joinFile is the line by which a text is one.
var joinFile = regexp.MustCompile(`(?m)^kind: JoinConfiguration$`)

// kubeadm reads the files that a script writes, and joins as `kubeadm join` with the one among them
// that is a JoinConfiguration.
func kubeadm(script string, cluster v1alpha1.BootstrapCluster) kubelet {
	files := hereDocuments(script)
	var join joinConfiguration
	for _, text := range files {
		if !joinFile.MatchString(text) {
			continue
		}
		if err := yaml.Unmarshal([]byte(text), &join); err != nil {
			return kubelet{refusal: "kubeadm cannot read its configuration: " + err.Error()}
		}
	}
	var discovery clientcmdapi.Config
	if err := yaml.Unmarshal([]byte(files[join.Discovery.File.KubeConfigPath]), &discovery); err != nil ||
		len(discovery.Clusters) != 1 {
		return kubelet{refusal: fmt.Sprintf("kubeadm finds no cluster in %q: %v", join.Discovery.File.KubeConfigPath, err)}
	}
	said := cluster
	said.Endpoint = discovery.Clusters[0].Cluster.Server
	said.CertificateAuthority = encode(discovery.Clusters[0].Cluster.CertificateAuthorityData)
	if refusal := otherCluster(said, cluster); refusal != "" {
		return kubelet{refusal: refusal}
	}
	if join.Discovery.TLSBootstrapToken == "" {
		return kubelet{refusal: "kubeadm has no token to join with"}
	}
	var flags []string
	for _, arg := range join.NodeRegistration.KubeletExtraArgs {
		flags = append(flags, "--"+arg.Name+"="+arg.Value)
	}
	k := startKubelet(nil, flags)
	k.taints, k.token = append(k.taints, join.NodeRegistration.Taints...), join.Discovery.TLSBootstrapToken
	return k.checked()
}

var hereDocument = regexp.MustCompile(`^[^#]* (/\S+) .*<<'(\w+)'$`)

// hereDocuments are the texts of the here-documents of a shell script, by the path in the command
// that reads them.
func hereDocuments(script string) map[string]string {
	files := map[string]string{}
	lines := strings.Split(script, "\n")
	for i := 0; i < len(lines); i++ {
		command := hereDocument.FindStringSubmatch(lines[i])
		if command == nil {
			continue
		}
		length := slices.Index(lines[i+1:], command[2])
		if length < 0 {
			break
		}
		files[command[1]] = strings.Join(lines[i+1:i+1+length], "\n") + "\n"
		i += 1 + length
	}
	return files
}

// bootstrapGroup may obtain the certificate of a node (cluster role bindings of kubeadm).
const bootstrapGroup = "system:bootstrappers:kubeadm:default-node-token"

// +kubebuilder:rbac:roleName=fake,groups=authentication.k8s.io,resources=tokenreviews,verbs=create

// authenticate is an error unless the machine has joined before, needs no token, or the API server
// takes its token. A kubelet that has joined has a certificate.
func (m *Machines) authenticate(ctx context.Context, mach *machine) error {
	mach.Disk.Lock()
	joined := mach.Disk.Registered
	mach.Disk.Unlock()
	if joined || mach.script.token == "" {
		return nil
	}
	review, err := m.o.Client.AuthenticationV1().TokenReviews().Create(ctx, &authenticationv1.TokenReview{
		Spec: authenticationv1.TokenReviewSpec{Token: mach.script.token}}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("authenticate: %w", err)
	}
	if !review.Status.Authenticated || !slices.Contains(review.Status.User.Groups, bootstrapGroup) {
		return fmt.Errorf("authenticate: the API server does not take the bootstrap token: %s", review.Status.Error)
	}
	return nil
}
