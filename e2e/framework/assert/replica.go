package assert

import (
	"encoding/base64"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/stratos-sh/stratos/e2e/controlplane"
	"github.com/stratos-sh/stratos/e2e/framework"
)

func encode(data []byte) string { return base64.StdEncoding.EncodeToString(data) }

// Replica is a pod of the release as processes: each container with the flags and the configuration
// that the chart gives it.
type Replica struct {
	framework.Running
	// Webhook is the address of its webhooks, "" where the chart serves none.
	Webhook string
	// Scheduler is nil where the chart has no such container.
	Scheduler *controlplane.Process

	chart *Chart
	name  string
	args  []string
}

// Identity writes a kubeconfig with a token of the chart's ServiceAccount, which has to exist, and
// returns its path. With it a process may do what the chart's roles say and nothing else.
func (c *Chart) Identity(t *testing.T, r *framework.Rig) string {
	t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ReleaseNamespace, Name: ServiceAccount}}
	request := &authenticationv1.TokenRequest{}
	if err := r.Client.SubResource("token").Create(t.Context(), account, request); err != nil {
		t.Fatal(err)
	}
	path, err := r.ControlPlane.TokenKubeconfig(ServiceAccount, request.Status.Token)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// Replica describes a pod of the release; nothing runs yet. More args come after those of the
// chart. It finds its addresses now, so that webhooks can be registered before it serves them.
func (c *Chart) Replica(t *testing.T, r *framework.Rig, name string, args ...string) *Replica {
	t.Helper()
	p := &Replica{chart: c, name: name}
	container := c.Container(t, StratosContainer)
	p.args = slices.DeleteFunc(slices.Clone(container.Args), isOfPlace)
	has := func(flag string) bool {
		return slices.ContainsFunc(container.Args, func(arg string) bool { return strings.HasPrefix(arg, flag+"=") })
	}
	if has("--cert-dir") {
		p.Webhook = FreeAddress(t)
		dir := t.TempDir()
		if err := r.ControlPlane.WriteServingCertificate(dir, name); err != nil {
			t.Fatal(err)
		}
		_, port, err := net.SplitHostPort(p.Webhook)
		if err != nil {
			t.Fatal(err)
		}
		p.args = append(p.args, "--cert-dir="+dir, "--webhook-port="+port)
		if has("--client-ca") {
			p.args = append(p.args, "--client-ca="+filepath.Join(dir, "ca.crt"))
		}
	}
	p.args = append(p.args, args...)
	return p
}

// isOfPlace: flags of the chart that say where something is, which is another place here.
func isOfPlace(arg string) bool {
	name, _, _ := strings.Cut(arg, "=")
	return slices.Contains([]string{
		"--cluster-name", "--cloud-provider", "--metrics-bind-address", "--health-probe-bind-address", "--webhook-port",
		"--cert-dir",
		"--extender-bind-address", "--client-ca",
	}, name)
}

// Start starts Stratos and then, where the chart has one, the scheduler, as the pod does, with the
// identity of the kubeconfig.
func (p *Replica) Start(t *testing.T, r *framework.Rig, kubeconfig string) {
	t.Helper()
	var err error
	if p.Running, err = r.StartStratos(t.Context(), p.name, append(p.args, "--kubeconfig="+kubeconfig)...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			LogTail(t, p.Process)
		}
	})
	if p.chart.Container(t, SchedulerContainer) != nil {
		p.startScheduler(t, r, kubeconfig)
	}
}

// startScheduler: in a pod kube-scheduler finds the ServiceAccount by itself, also for asking who
// asks it.
func (p *Replica) startScheduler(t *testing.T, r *framework.Rig, kubeconfig string) {
	t.Helper()
	args := []string{"--authentication-kubeconfig=" + kubeconfig, "--authorization-kubeconfig=" + kubeconfig}
	for _, arg := range p.chart.Container(t, SchedulerContainer).Command[1:] {
		if !strings.HasPrefix(arg, "--config=") && !strings.HasPrefix(arg, "--secure-port=") {
			args = append(args, arg)
		}
	}
	var err error
	p.Scheduler, err = r.ControlPlane.StartScheduler(t.Context(), controlplane.SchedulerOptions{
		Name: p.name + "-scheduler", Kubeconfig: kubeconfig, Args: args, ConfigYAML: p.chart.SchedulerConfig(t, p.Extender),
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Stop ends the pod as planned: the scheduler first.
func (p *Replica) Stop(t *testing.T) {
	t.Helper()
	for _, process := range []*controlplane.Process{p.Scheduler, p.Process} {
		if process == nil {
			continue
		}
		if err := process.Stop(); err != nil {
			t.Error(err)
		}
	}
}

// Kill ends both at once, as the loss of a node does.
func (p *Replica) Kill() {
	p.Process.Kill()
	if p.Scheduler != nil {
		p.Scheduler.Kill()
	}
}

// Restart starts what does not run, with the same addresses.
func (p *Replica) Restart(t *testing.T) {
	t.Helper()
	for _, process := range []*controlplane.Process{p.Process, p.Scheduler} {
		if process == nil || process.PID() != 0 {
			continue
		}
		if err := process.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// FreeAddress is a loopback address that nothing listens on now.
func FreeAddress(t *testing.T) string {
	t.Helper()
	address, err := controlplane.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	return address
}

// CA is the certificate of the control plane's authority.
func CA(t *testing.T, r *framework.Rig) []byte {
	t.Helper()
	ca, err := os.ReadFile(r.ControlPlane.CAFile())
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

// APIServer is the address of the API server, and what calls it with Stratos's identity: for a
// proxy between the two.
func APIServer(t *testing.T, r *framework.Rig) (*url.URL, http.RoundTripper) {
	t.Helper()
	path, err := r.ControlPlane.UserKubeconfig(framework.UserStratos, "system:masters")
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		t.Fatal(err)
	}
	transport, err := rest.TransportFor(config)
	if err != nil {
		t.Fatal(err)
	}
	server, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	return server, transport
}

// Kubeconfig writes a kubeconfig for a server that authenticates no client, and returns its path.
func Kubeconfig(t *testing.T, server string) string {
	t.Helper()
	config := clientcmdapi.NewConfig()
	config.Clusters["proxy"] = &clientcmdapi.Cluster{Server: server}
	config.AuthInfos["anyone"] = clientcmdapi.NewAuthInfo()
	config.Contexts["proxy"] = &clientcmdapi.Context{Cluster: "proxy", AuthInfo: "anyone"}
	config.CurrentContext = "proxy"
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// Kubectl runs the control plane's own kubectl and returns all that it prints.
func Kubectl(t *testing.T, plane *controlplane.ControlPlane, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), plane.KubectlPath(), args...)
	// Its discovery cache would outlive the plane.
	cmd.Env = append(os.Environ(), "KUBECONFIG="+plane.Kubeconfig(), "HOME="+t.TempDir())
	out, err := cmd.CombinedOutput()
	return string(out), err
}
