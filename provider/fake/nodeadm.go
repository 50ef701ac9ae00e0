package fake

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"mime/multipart"
	"net/mail"
	"regexp"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

// nodeConfigType is the type of the parts that nodeadm reads; cloud-init reads the others.
const nodeConfigType = "application/node.eks.aws"

// userDataParts are the parts of user data.
type userDataParts struct {
	nodeConfigs []string
	others      string
}

// splitUserData finds the NodeConfigs. Text that is no MIME may be one NodeConfig as a whole.
func splitUserData(text string) (userDataParts, error) {
	reader := multipartOf(text)
	if reader == nil {
		return whole(text), nil
	}
	var parts userDataParts
	for {
		part, err := reader.NextPart()
		if err == io.EOF { //nolint:errorlint // wrapped it means that the last boundary is missing
			return parts, nil
		}
		if err != nil {
			return parts, fmt.Errorf("the MIME text cannot be read: %w", err)
		}
		body, err := io.ReadAll(part)
		if err != nil {
			return parts, fmt.Errorf("the MIME text cannot be read: %w", err)
		}
		content := plain(string(body))
		if mediaType, _, _ := mime.ParseMediaType(part.Header.Get("Content-Type")); mediaType == nodeConfigType {
			parts.nodeConfigs = append(parts.nodeConfigs, content)
		} else {
			parts.others += content + "\n"
		}
	}
}

// multipartOf is nil for a text that is not multipart.
func multipartOf(text string) *multipart.Reader {
	message, err := mail.ReadMessage(strings.NewReader(text))
	if err != nil {
		return nil
	}
	mediaType, params, err := mime.ParseMediaType(message.Header.Get("Content-Type"))
	if err != nil || !strings.HasPrefix(mediaType, "multipart/") {
		return nil
	}
	return multipart.NewReader(message.Body, params["boundary"])
}

// bareNodeConfig is the line of YAML or JSON that a NodeConfig has.
var bareNodeConfig = regexp.MustCompile(`(?m)^[\s{"']*apiVersion["']?\s*:\s*["']?node\.eks\.aws/`)

func whole(text string) userDataParts {
	if bareNodeConfig.MatchString(text) && !strings.HasPrefix(text, "#!") {
		return userDataParts{nodeConfigs: []string{text}}
	}
	return userDataParts{others: text}
}

// plain undoes base64, which cloud-init knows by a header and nodeadm by the text.
func plain(body string) string {
	if decoded, err := base64.StdEncoding.DecodeString(body); err == nil {
		return string(decoded)
	}
	return body
}

// nodeConfigDocument is what counts here of a NodeConfig.
type nodeConfigDocument struct {
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
			Config map[string]any `json:"config"`
			Flags  []string       `json:"flags"`
		} `json:"kubelet"`
	} `json:"spec"`
}

func decodeNodeConfig(text string) (nodeConfigDocument, error) {
	var c nodeConfigDocument
	data, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		return c, err
	}
	if err := json.Unmarshal(data, &c); err != nil {
		return c, err
	}
	if group, _, _ := strings.Cut(c.APIVersion, "/"); group != "node.eks.aws" || c.Kind != "NodeConfig" {
		return c, errors.New("it is no NodeConfig of node.eks.aws")
	}
	return c, nil
}

// nodeadm merges NodeConfigs in order and starts the kubelet with what comes out: a later value
// wins, a list is replaced, flags are appended.
func nodeadm(texts []string, cluster v1alpha1.BootstrapCluster) kubelet {
	merged := nodeConfigDocument{}
	merged.Spec.Kubelet.Config = map[string]any{}
	for _, text := range texts {
		c, err := decodeNodeConfig(text)
		if err != nil {
			return kubelet{refusal: "nodeadm cannot read the NodeConfig: " + err.Error()}
		}
		old, more := &merged.Spec.Cluster, c.Spec.Cluster
		old.Name, old.CIDR = cmp.Or(more.Name, old.Name), cmp.Or(more.CIDR, old.CIDR)
		old.APIServerEndpoint = cmp.Or(more.APIServerEndpoint, old.APIServerEndpoint)
		if len(more.CertificateAuthority) > 0 {
			old.CertificateAuthority = more.CertificateAuthority
		}
		mergeInto(merged.Spec.Kubelet.Config, c.Spec.Kubelet.Config)
		merged.Spec.Kubelet.Flags = append(merged.Spec.Kubelet.Flags, c.Spec.Kubelet.Flags...)
	}
	said := v1alpha1.BootstrapCluster{Name: merged.Spec.Cluster.Name, Endpoint: merged.Spec.Cluster.APIServerEndpoint,
		CertificateAuthority: encode(merged.Spec.Cluster.CertificateAuthority),
		ServiceCIDR:          merged.Spec.Cluster.CIDR}
	if refusal := otherCluster(said, cluster); refusal != "" {
		return kubelet{refusal: refusal}
	}
	return startKubelet(merged.Spec.Kubelet.Config, merged.Spec.Kubelet.Flags)
}

// mergeInto puts the later map over the earlier one, tables deeply.
func mergeInto(earlier, later map[string]any) {
	for key, value := range later {
		old, isTable := earlier[key].(map[string]any)
		if table, ok := value.(map[string]any); ok && isTable {
			merged := maps.Clone(old)
			mergeInto(merged, table)
			value = merged
		}
		earlier[key] = value
	}
}

// startKubelet reads the configuration file and then the flags, which beat it.
func startKubelet(config map[string]any, flags []string) kubelet {
	text, err := json.Marshal(config)
	if err != nil {
		return kubelet{refusal: err.Error()}
	}
	file := struct {
		RegisterWithTaints []corev1.Taint `json:"registerWithTaints"`
		MaxPods            int64          `json:"maxPods"`
		RegisterNode       *bool          `json:"registerNode"`
	}{}
	if err := json.Unmarshal(text, &file); err != nil {
		return kubelet{refusal: "a kubelet cannot read its configuration: " + err.Error()}
	}
	if file.RegisterNode != nil && !*file.RegisterNode {
		return kubelet{refusal: "the kubelet registers no Node"}
	}
	k := kubelet{taints: file.RegisterWithTaints, labels: map[string]string{}, maxPods: file.MaxPods}
	words := strings.Fields(strings.Join(flags, " ")) // as systemd splits them
	for i, word := range words {
		name, value, hasValue := strings.Cut(word, "=")
		if !hasValue && i+1 < len(words) {
			value = words[i+1]
		}
		switch name {
		case "--node-labels": // they add up
			maps.Copy(k.labels, parseLabels(value))
		case "--register-with-taints":
			k.taints = taintsOfFlag(value)
		case "--max-pods":
			if k.maxPods, err = strconv.ParseInt(value, 10, 64); err != nil {
				return kubelet{refusal: "a kubelet does not start with " + word}
			}
		}
	}
	return k.checked()
}
