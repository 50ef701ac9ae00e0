package helm

import (
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

func TestValuesSchemaRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		values string
		want   []string
	}{
		"no cluster name":                  {`{clusterName: ""}`, []string{"clusterName"}},
		"a cluster name that is no tag":    {`{clusterName: "a b"}`, []string{"clusterName"}},
		"a cloud that nobody has":          {`{cloudProvider: gcp}`, []string{"cloudProvider", "aws", "fake", "kind"}},
		"a value that does not exist":      {`{replicas: 2}`, []string{"replicas"}},
		"a nested one that does not exist": {`{scheduler: {enable: true}}`, []string{"scheduler", "enable"}},
		"no replica":                       {`{replicaCount: 0}`, []string{"replicaCount"}},
		"half a replica":                   {`{replicaCount: 1.5}`, []string{"replicaCount"}},
		"a pull policy in lower case":      {`{image: {pullPolicy: always}}`, []string{"image/pullPolicy", "Always"}},
		"a digest without algorithm":       {`{image: {digest: 9f86d081}}`, []string{"image/digest"}},
		"a tag in the repository's place":  {`{image: {repository: ""}}`, []string{"image/repository"}},
		"an unknown failure policy": {`{webhook: {failurePolicy: Warn}}`,
			[]string{"webhook/failurePolicy", "Fail", "Ignore"}},
		"longer than an API server waits": {`{webhook: {timeoutSeconds: 31}}`, []string{"webhook/timeoutSeconds"}},
		"the cluster's own scheduler":     {`{scheduler: {name: default-scheduler}}`, []string{"scheduler/name"}},
		"it again, among those that ask": {`{extender: {schedulerNames: [default-scheduler]}}`,
			[]string{"extender/schedulerNames/0"}},
		"a cluster IP that is a name": {`{extender: {service: {clusterIP: stratos}}}`,
			[]string{"extender/service/clusterIP"}},
		"text for a switch":          {`{crds: {enabled: "yes"}}`, []string{"crds/enabled"}},
		"a CA that is not PEM":       {`{tls: {caBundle: TUlJ}}`, []string{"tls/caBundle"}},
		"an argument without dashes": {`{extraArgs: [debug]}`, []string{"extraArgs/0"}},
		"a variable without a name":  {`{extraEnv: [{value: x}]}`, []string{"extraEnv/0", "name"}},
		"a name too long for its suffixes": {`{fullnameOverride: a-name-with-more-than-forty-characters-in-it}`,
			[]string{"fullnameOverride"}},
		"an interval in no unit":       {`{serviceMonitor: {interval: "30"}}`, []string{"serviceMonitor/interval"}},
		"annotations that are no text": {`{podAnnotations: {a: 1}}`, []string{"podAnnotations/a"}},
		"a budget with a wish of its own": {`{podDisruptionBudget: {maximum: 1}}`,
			[]string{"podDisruptionBudget", "maximum"}},
		"a certificate from two sources": {`{tls: {existingSecret: s}}`,
			[]string{"tls.existingSecret", "certManager.enabled=false"}},
		"both wirings at once": {`{extender: {expose: true}}`,
			[]string{"extender.expose", "scheduler.enabled=false"}},
		"open to all without a certificate": {`{extender: {expose: true}, scheduler: {enabled: false}, certManager: {enabled: false}}`, []string{"extender.expose", "certManager.enabled=true", "tls.existingSecret"}},
		"host network without a certificate": {`{hostNetwork: true, certManager: {enabled: false}}`,
			[]string{"hostNetwork", "certManager.enabled=true", "tls.existingSecret"}},
		"host network, and no certificate for the scheduler": {`{hostNetwork: true, certManager: {enabled: false}, tls: {existingSecret: s}}`,
			[]string{"tls.schedulerClientSecret", "hostNetwork"}},
		"a limit without a rate": {`{rateLimits: {runInstances: "5"}}`, []string{"rateLimits/runInstances"}},
		"a limit of no call":     {`{rateLimits: {RunInstances: 5/2}}`, []string{"rateLimits", "RunInstances"}},
		"a negative price":       {`{prices: {currency: USD, instances: {m5.large: -0.1}}}`, []string{"prices/instances/m5.large", "0"}},
		"a price in words":       {`{prices: {currency: USD, volumes: {gp3: cheap}}}`, []string{"prices/volumes/gp3"}},
		"a sign for a currency":  {`{prices: {currency: $}}`, []string{"prices/currency"}},
		"prices of no currency":  {`{prices: {instances: {m5.large: 0.1}}}`, []string{"prices.currency"}},
		"a zone for the region":  {`{aws: {region: eu-central-1a}}`, []string{"aws/region"}},
		"a word for a log level": {`{logLevel: verbose}`, []string{"logLevel"}},
		"no time to end":         {`{terminationGracePeriodSeconds: 10}`, []string{"terminationGracePeriodSeconds", "15"}},
		"a filter that the extender makes": {`{scheduler: {plugins: {filter: {enabled: [{name: TaintToleration}]}}}}`,
			[]string{"scheduler.plugins.filter.enabled", "TaintToleration", "standby"}},
		"the other one": {`{scheduler: {plugins: {filter: {enabled: [{name: NodeName}, {name: NodeUnschedulable}]}}}}`,
			[]string{"scheduler.plugins.filter.enabled", "NodeUnschedulable"}},
		"a configuration of one's own": {`{scheduler: {extraArgs: [--config=/mine]}}`,
			[]string{"scheduler.extraArgs", "--config", "scheduler.plugins"}},
		"a lease of one's own": {`{scheduler: {extraArgs: [--leader-elect-resource-name=x]}}`,
			[]string{"scheduler.extraArgs", "--leader-elect-resource-name"}},
		"a version that no chart knows": {`{scheduler: {kubernetesVersion: v1.20.3}}`,
			[]string{"scheduler.enabled", "v1.20.3"}},
		"more nodes than there are": {`{scheduler: {percentageOfNodesToScore: 101}}`,
			[]string{"scheduler/percentageOfNodesToScore"}},
		"a token without its key": {`{serviceMonitor: {authorization: {credentials: {name: s}}}}`,
			[]string{"serviceMonitor/authorization/credentials", "key"}},
		"a peer of no port":              {`{networkPolicy: {from: {health: []}}}`, []string{"networkPolicy/from", "health"}},
		"one port twice":                 {`{ports: {webhook: 8080}}`, []string{"ports.webhook", "ports.metrics", "8080"}},
		"a port that root alone has":     {`{ports: {webhook: 443}}`, []string{"ports/webhook", "minimum"}},
		"a DNS policy of nobody":         {`{dnsPolicy: Host}`, []string{"dnsPolicy", "ClusterFirst"}},
		"rights for everybody's account": {`{serviceAccount: {create: false}}`, []string{"serviceAccount.name"}},
		"a CA that cannot be looked up": {`{certManager: {enabled: false}, tls: {existingSecret: s}}`,
			[]string{"tls.caBundle"}},
	} {
		for _, major := range Majors() {
			t.Run(name+"/"+major.String(), func(t *testing.T) {
				s := Set{Release: "stratos", Namespace: "stratos-system", Kubernetes: "v1.37.2", Values: map[string]any{}}
				if err := yaml.Unmarshal([]byte(c.values), &s.Values); err != nil {
					t.Fatal(err)
				}
				if _, given := s.Values["clusterName"]; !given {
					s.Values["clusterName"] = "test"
				}
				_, err := major.Render(tree.ChartDir(), s)
				if err == nil {
					t.Fatal("accepted")
				}
				for _, want := range c.want {
					if !strings.Contains(err.Error(), want) {
						t.Errorf("error %q does not say %q", err, want)
					}
				}
			})
		}
	}
}

// TestKubernetesThatIsNotSupported: a cluster whose scheduler Stratos does not support is refused
// where that is wanted, one that is too old for Stratos whatever the values.
func TestKubernetesThatIsNotSupported(t *testing.T) {
	none := map[string]any{"enabled": false}
	for name, c := range map[string]struct {
		kubernetes string
		values     map[string]any
		want       string // "" is accepted
	}{
		"too old":                               {"v1.32.9", map[string]any{"scheduler": none}, "1.33"},
		"the minor before the oldest":           {"v1.33.4", nil, "scheduler.enabled"},
		"the same, without a scheduler of ours": {"v1.33.4-eks-1", map[string]any{"scheduler": none}, ""},
		"the minor after the newest":            {"v1.38.0", nil, ""},
		"two minors after the newest":           {"v1.39.0", nil, "scheduler.enabled"},
		"those, without a scheduler of ours":    {"v1.39.0", map[string]any{"scheduler": none}, ""},
		"a platform's name for the oldest":      {"v1.34.0-gke.100", nil, ""},
	} {
		for _, major := range Majors() {
			t.Run(name+"/"+major.String(), func(t *testing.T) {
				s := Set{Release: "stratos", Namespace: "stratos-system", Kubernetes: c.kubernetes,
					Values: map[string]any{"clusterName": "test"}}
				for key, value := range c.values {
					s.Values[key] = value
				}
				_, err := major.Render(tree.ChartDir(), s)
				if (err == nil) != (c.want == "") {
					t.Fatalf("error %v, want one: %v", err, c.want != "")
				}
				if err != nil && !strings.Contains(err.Error(), c.want) {
					t.Errorf("error %q does not say %q", err, c.want)
				}
			})
		}
	}
}
