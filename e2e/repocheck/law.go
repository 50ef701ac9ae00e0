package repocheck

// PurePackages are the leaves that turn a value into a value: no client, no logger, no context, no
// clock.
func PurePackages() []Pattern {
	return []Pattern{"./extender/fit", "./extender/decide", "./extender/owners", "./scaler/lifecycle", "./scaler/network",
		"./scaler/plan", "./scaler/transition", "./provider/price", "./provider/userdata", "./stacks/bump", "./stacks/format"}
}

// Law is the import law. .golangci.yml says the same by allow-lists, which report at the line while
// one writes; this table still holds when a glob there has stopped matching.
func Law() []Rule {
	rules := append(siblingRules(), roomRules()...)
	rules = append(rules, pureRules()...)
	rules = append(rules, sdkRules()...)
	rules = append(rules, providerRules()...)
	rules = append(rules, stackRules()...)
	rules = append(rules, pluginRules()...)
	return append(rules, repositoryRules()...)
}

func siblingRules() []Rule {
	return []Rule{
		{
			From: []Pattern{"./webhook/..."}, To: []Pattern{"./extender/...", "./scaler/..."},
			Reach: ThroughOthers, InTests: true,
			Reason: "admission must work while the other parts do not; the siblings meet in cmd/stratos alone",
		},
		{
			From:    []Pattern{"./extender/..."},
			To:      append([]Pattern{"./webhook/...", "./scaler", "./scaler/start"}, scalerRooms()...),
			Reach:   ThroughOthers,
			InTests: true,
			Reason:  "the extender answers from memory and asks for starts through an interface of its own; the siblings meet in cmd/stratos alone",
		},
		{
			From:     []Pattern{"./scaler/..."},
			To:       []Pattern{"./webhook/...", "./extender/..."},
			ToExcept: []Pattern{"./extender/fit", "./extender/decide", "./extender/owners", "./extender/cluster"},
			Reach:    ThroughOthers,
			InTests:  true,
			Reason:   "the siblings meet in cmd/stratos alone; the scaler foresees what the extender will do by calling its pure leaves on the view that both share",
		},
		{
			From: []Pattern{"./extender/...", "./scaler/..."}, To: []Pattern{"./provider/..."},
			ToExcept: []Pattern{"./provider"}, Reach: ThroughOthers,
			Reason: "which cloud it is gets decided in cmd/stratos; everybody else knows the contract only",
		},
		{
			From: []Pattern{"./webhook/..."}, To: []Pattern{"./provider/..."},
			ToExcept: []Pattern{"./provider", "./provider/userdata"}, Reach: ThroughOthers,
			Reason: "which cloud it is gets decided in cmd/stratos; admission knows the contract, and by a pure leaf what a launch would refuse of user data",
		},
	}
}

// scalerRooms are the packages of the scaler that read and act. Each may use those before it.
func scalerRooms() []Pattern {
	return []Pattern{"./scaler/conflict", "./scaler/metrics", "./scaler/nominate", "./scaler/inventory",
		"./scaler/bootstraptoken", "./scaler/nodeclass", "./scaler/pending", "./scaler/pool", "./scaler/node"}
}

// roomRules keep the scaler's rooms in their order.
func roomRules() []Rule {
	var rules []Rule
	rooms := scalerRooms()
	for i, room := range rooms {
		rules = append(rules, Rule{
			From: []Pattern{room}, To: append([]Pattern{"./scaler"}, rooms[i+1:]...), Reach: Direct, InTests: true,
			Reason: "a room of the scaler uses the rooms before it; the loops meet in package scaler",
		})
	}
	return append(rules, Rule{
		From: []Pattern{"./scaler/start", "./scaler/lifecycle", "./scaler/network", "./scaler/plan", "./scaler/transition"},
		To:   append([]Pattern{"./scaler"}, rooms...), Reach: ThroughOthers, InTests: true,
		Reason: "what is decided, and what starts instances, knows no loop",
	})
}

func pureRules() []Rule {
	return []Rule{
		{
			From: PurePackages(),
			To: []Pattern{"context", "log/...", "math/rand/...", "net/http/...", "os/...", "syscall", "runtime/...",
				"github.com/go-logr/...", "go.uber.org/zap/...", "k8s.io/klog/...", "k8s.io/utils/clock/..."},
			Reach:  Direct,
			Reason: "a pure leaf gets everything it decides by as a parameter, so that equal input gives equal output",
		},
		{
			From: PurePackages(),
			To: []Pattern{"k8s.io/client-go/...", "sigs.k8s.io/controller-runtime/...", "github.com/prometheus/...",
				"github.com/go-chi/..."},
			Reach:  ThroughOthers,
			Reason: "a pure leaf does no I/O and holds no client; gather before it and act after it",
		},
		{
			From: []Pattern{"./extender/owners"}, To: []Pattern{"./..."}, Reach: Direct,
			Reason: "what a controller is still to create depends on nothing of ours",
		},
		{
			From: []Pattern{"./extender/fit"}, To: []Pattern{"./..."},
			ToExcept: []Pattern{"./crds/..."}, Reach: Direct,
			Reason: "whether a pod fits a node depends on nothing of ours but the names and types of the API",
		},
		{
			From: []Pattern{"./provider/userdata"}, To: []Pattern{"./..."},
			ToExcept: []Pattern{"./crds/...", "./provider"}, Reach: Direct,
			Reason: "what an instance boots with depends on nothing of ours but the API and what a launch asks for",
		},
		{
			From: []Pattern{"./provider/price"}, To: []Pattern{"./..."},
			ToExcept: []Pattern{"./crds/..."}, Reach: Direct,
			Reason: "what an instance costs depends on nothing of ours but the types of the API",
		},
		{
			From: []Pattern{"./extender/decide"}, To: []Pattern{"./scaler/..."}, Reach: ThroughOthers, InTests: true,
			Reason: "scaler/plan calls the ledger, never the other way round",
		},
	}
}

// sdkRules keep the clients of clouds in their providers.
func sdkRules() []Rule {
	aws := []Pattern{"github.com/aws/..."}
	return []Rule{
		{
			From: []Pattern{"./..."}, FromExcept: []Pattern{"./provider/aws/..."}, To: aws, Reach: Direct, InTests: true,
			Reason: "the AWS SDK exists only under provider/aws, so that another cloud stays a folder beside it",
		},
		{
			From:       []Pattern{"./..."},
			FromExcept: []Pattern{"./provider/aws/...", "./cmd/...", "./e2e/..."}, To: aws, Reach: ThroughOthers,
			Reason: "only cmd/stratos, which chooses the provider, may carry the AWS SDK in",
		},
		{
			From: []Pattern{"./..."}, FromExcept: []Pattern{"./provider/kind/...", "./e2e/..."},
			To:    []Pattern{"github.com/docker/docker/..."},
			Reach: Direct, InTests: true,
			Reason: "Docker's client exists only under provider/kind, so that another cloud stays a folder beside it",
		},
	}
}

func providerRules() []Rule {
	return []Rule{
		{
			From: []Pattern{"./provider/kind/..."}, To: []Pattern{"./provider/fake/...", "./provider/aws/..."},
			Reach:  ThroughOthers,
			Reason: "one cloud must not depend on another",
		},
		{
			From: []Pattern{"./provider/..."}, To: []Pattern{"./scaler/...", "./extender/...", "./webhook/..."},
			Reach: ThroughOthers, InTests: true,
			Reason: "a provider does what it is told; what is needed is decided above it",
		},
		{
			From: []Pattern{"./provider"}, To: []Pattern{"./provider/..."}, ToExcept: []Pattern{"./provider"},
			Reach: ThroughOthers, Reason: "the contract knows none of its implementations",
		},
		{
			From: []Pattern{"./provider/aws/..."}, To: []Pattern{"./provider/fake/..."}, Reach: ThroughOthers,
			Reason: "the real cloud must not depend on the played one",
		},
		{
			From: []Pattern{"./provider/aws"}, To: []Pattern{"./provider/aws/ec2test/...", "./provider/simcloud/..."},
			Reach:  ThroughOthers,
			Reason: "nothing in the provider knows the server that its tests call",
		},
		{
			From: []Pattern{"./cmd/..."}, To: []Pattern{"./provider/aws/ec2test/..."}, Reach: ThroughOthers,
			Reason: "the EC2 test server is a process of the suites; it is not shipped",
		},
		{
			From: []Pattern{"./provider/aws/ec2test/..."}, To: []Pattern{"github.com/aws/..."}, Reach: ThroughOthers,
			Reason: "a server that used the SDK's own types would agree with the SDK on its mistakes",
		},
		{
			From: []Pattern{"./provider/simcloud/..."}, To: []Pattern{"./provider/fake/...", "./provider/aws/..."},
			Reach:  ThroughOthers,
			Reason: "the played cloud's truth knows none of the protocols that stand before it",
		},
		{
			From: []Pattern{"./provider/fake/..."}, To: []Pattern{"./provider/aws/..."}, Reach: ThroughOthers,
			Reason: "the played cloud needs no other component",
		},
		{
			From: []Pattern{"./provider/limiter"}, To: []Pattern{"./provider/..."},
			ToExcept: []Pattern{"./provider", "./provider/limiter"}, Reach: ThroughOthers,
			Reason: "the limits are the same for every cloud; a provider may use them, never the other way round",
		},
	}
}

// stackRules keep `stratos stack` apart from the controller, and Helm out of both.
func stackRules() []Rule {
	return []Rule{
		{
			From: []Pattern{"./stacks/..."}, To: []Pattern{"./..."}, ToExcept: []Pattern{"./stacks/..."},
			Reach: ThroughOthers, InTests: true,
			Reason: "stratos stack releases any provider's stack; it depends on files and on nothing of the controller",
		},
		{
			From: []Pattern{"./..."}, FromExcept: []Pattern{"./cmd/...", "./e2e/...", "./stacks/..."},
			To:    []Pattern{"./stacks/..."},
			Reach: ThroughOthers, InTests: true,
			Reason: "the controller runs without stacks; the two meet in cmd/stratos alone",
		},
		{
			From: []Pattern{"./..."}, FromExcept: []Pattern{"./e2e/..."}, To: []Pattern{"helm.sh/helm/..."},
			Reach: ThroughOthers, InTests: true,
			Reason: "what is shipped never brings Helm with it; stratos stack calls the helm on PATH",
		},
	}
}

// pluginRules keep kubectl-stratos and the controller apart.
func pluginRules() []Rule {
	plugin := []Pattern{"./cmd/kubectl-stratos/..."}
	return []Rule{
		{
			From: []Pattern{"./..."}, FromExcept: append([]Pattern{"./e2e/...", "./cmd/reference"}, plugin...),
			To:    []Pattern{"k8s.io/cli-runtime/...", "charm.land/bubbletea/..."},
			Reach: ThroughOthers, InTests: true,
			Reason: "kubectl's library and that of terminals are for the plugin; the image of the controller does without them",
		},
		{
			From: plugin, To: []Pattern{"./..."},
			ToExcept: append([]Pattern{"./crds/...", "./extender/decide", "./extender/fit", "./extender/minors"}, plugin...),
			Reach:    ThroughOthers,
			Reason:   "the plugin reads what Stratos publishes at the API server, and has none of its parts",
		},
	}
}

func repositoryRules() []Rule {
	return []Rule{
		{
			From: []Pattern{"./crds/..."}, To: []Pattern{"./..."}, ToExcept: []Pattern{"./crds/..."},
			Reach: ThroughOthers, InTests: true,
			Reason: "other projects import the API types; they must not get the program with them",
		},
		{
			From: []Pattern{"./crds/v1alpha1"},
			To: []Pattern{"k8s.io/client-go/...", "sigs.k8s.io/controller-runtime/...",
				"k8s.io/apiextensions-apiserver/..."},
			Reach:  ThroughOthers,
			Reason: "other projects import the API types; they must not get a client and its version with them",
		},
		{
			From:       []Pattern{"./..."},
			FromExcept: []Pattern{"./e2e/controlplane/...", "./e2e/parity/..."},
			To:         []Pattern{"k8s.io/kubernetes/..."},
			Reach:      Direct,
			InTests:    true,
			Reason:     "k8s.io/kubernetes promises no API to importers; it exists only in the modules e2e/controlplane, which builds the binaries, and e2e/parity, which compares with its filters",
		},
		{
			From:       []Pattern{"./..."},
			FromExcept: []Pattern{"./e2e/karpenter/..."},
			To:         []Pattern{"sigs.k8s.io/karpenter/..."},
			Reach:      Direct,
			InTests:    true,
			Reason:     "Karpenter runs beside us as a process of its own, built with just the dependencies that it was released with; its types are not ours to depend on",
		},
		{
			From:       []Pattern{"./..."},
			FromExcept: []Pattern{"./e2e/certmanager/..."},
			To: []Pattern{"github.com/cert-manager/cert-manager/pkg/controller/...",
				"github.com/cert-manager/cert-manager/pkg/issuer/..."},
			Reach:   Direct,
			InTests: true,
			Reason:  "cert-manager's controllers promise no API to importers; they exist only in the module e2e/certmanager, which runs them as a process",
		},
		{
			From: []Pattern{"./..."}, FromExcept: []Pattern{"./e2e/..."}, To: []Pattern{"k8s.io/kubernetes/...", "./e2e/..."},
			Reach: ThroughOthers, InTests: true,
			Reason: "what is shipped never depends on what tests it, nor on the source of Kubernetes itself",
		},
		{
			From:  []Pattern{"./..."},
			To:    []Pattern{"github.com/stretchr/testify/...", "github.com/onsi/ginkgo/...", "github.com/onsi/gomega/..."},
			Reach: Direct, InTests: true,
			Reason: "tests are plain testing with go-cmp",
		},
	}
}
