package suite

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net"
	"net/http"
	"net/mail"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/kind/cluster"
	"github.com/stratos-sh/stratos/provider/userdata"
	"github.com/stratos-sh/stratos/scaler/bootstraptoken"
)

// TestKubeadmJoins boots a fresh machine, which knows nothing of the cluster, by the user data of
// the family Kubeadm, beside a metadata service as EC2 has it. A real kubelet obtains its
// certificate by the launch's token, and registers with labels and taints. It goes on when the
// token is gone, which is before its first workload pod.
func TestKubeadmJoins(t *testing.T) {
	undisturbed(t)
	l := cluster.New(t)
	token, revoke := launchToken(t, l)
	const name = "stratos-kubeadm"
	own := corev1.Taint{Key: "example.com/team", Value: "a", Effect: corev1.TaintEffectNoSchedule}
	standby := corev1.Taint{Key: v1alpha1.TaintStandby, Effect: corev1.TaintEffectNoSchedule}
	text, err := userdata.Kubeadm(publishedCluster(t, l), userdata.Kubelet{
		Labels: map[string]string{"example.com/team": "a"}, Taints: []corev1.Taint{own, standby}, MaxPods: 17,
		ExtraArgs: []string{"--v=3"},
	}, token.String(), "")
	if err != nil {
		t.Fatal(err)
	}
	m := newMachine(t, l, name)
	m.boot(t, text)

	n := awaitReady(t, l, name, time.Time{})
	if n.Spec.ProviderID != "aws:///us-east-1a/i-0123456789abcdef0" || n.Labels["example.com/team"] != "a" ||
		n.Status.Allocatable.Pods().Value() != 17 {
		t.Errorf("provider ID %q, labels %v, %s pods", n.Spec.ProviderID, n.Labels, n.Status.Allocatable.Pods())
	}
	for _, taint := range []corev1.Taint{own, standby} {
		if !slices.ContainsFunc(n.Spec.Taints, func(x corev1.Taint) bool { return x.ToString() == taint.ToString() }) {
			t.Errorf("taints %v, want %v among them", n.Spec.Taints, taint)
		}
	}
	servesAPod(t, l, n, own, revoke)
	// What had the token in it is gone, and the unit is done.
	left := cluster.MustDocker(t, "exec", name, "sh", "-c",
		"ls /etc/stratos; grep -rl "+token.Secret+" /etc /var/lib/kubelet /run/stratos-join 2>/dev/null || true")
	if left != "" {
		t.Errorf("the machine still has %s", left)
	}
}

// launchToken makes the bootstrap token of a launch. revoke ends it before the test does.
func launchToken(t *testing.T, l *cluster.Cluster) (token bootstraptoken.Token, revoke func()) {
	t.Helper()
	key := filepath.Join(t.TempDir(), "tls.key")
	if err := os.WriteFile(key, []byte(strings.Repeat("a key of the test ", 3)), 0o600); err != nil {
		t.Fatal(err)
	}
	tokens := &bootstraptoken.Tokens{Writer: l.Client, KeyFile: key, Now: time.Now}
	token, _, err := tokens.Create(t.Context(), t.Name())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tokens.Delete(context.Background(), token.ID) })
	return token, func() {
		if err := tokens.Delete(t.Context(), token.ID); err != nil {
			t.Fatal(err)
		}
	}
}

// awaitReady waits until the kubelet has said since then that its node is Ready.
func awaitReady(t *testing.T, l *cluster.Cluster, name string, since time.Time) *corev1.Node {
	t.Helper()
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	cluster.Await(t, "the kubelet registers its Node and is Ready", func(ctx context.Context) (bool, error) {
		err := l.Client.Get(ctx, client.ObjectKeyFromObject(n), n)
		return err == nil && slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue && !c.LastHeartbeatTime.Time.Before(since)
		}), err
	})
	return n
}

// servesAPod runs a pod that tolerates the pool's taint and waits for the taint of Stratos, as
// every workload pod does. The token ends before that taint.
func servesAPod(t *testing.T, l *cluster.Cluster, n *corev1.Node, own corev1.Taint, revoke func()) {
	t.Helper()
	images := strings.Fields(cluster.MustDocker(t, "exec", n.Name, "ctr", "-n", "k8s.io", "images", "ls", "-q"))
	at := slices.IndexFunc(images, func(image string) bool { return strings.Contains(image, "/pause:") })
	if at < 0 {
		t.Fatalf("no image in %q that runs until it is ended", images)
	}
	l.Namespace(t, n.Name)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: n.Name},
		Spec: corev1.PodSpec{
			NodeSelector:                  map[string]string{corev1.LabelHostname: n.Name},
			TerminationGracePeriodSeconds: new(int64),
			Tolerations: []corev1.Toleration{{Key: own.Key, Operator: corev1.TolerationOpEqual, Value: own.Value,
				Effect: own.Effect}},
			Containers: []corev1.Container{{Name: "web", Image: images[at], ImagePullPolicy: corev1.PullNever}},
		},
	}
	l.Create(t, pod)
	read := func(ctx context.Context) error { return l.Client.Get(ctx, client.ObjectKeyFromObject(pod), pod) }
	cluster.Await(t, "the scheduler refuses the pod", func(ctx context.Context) (bool, error) {
		err := read(ctx)
		return len(pod.Status.Conditions) > 0 && pod.Status.Conditions[0].Reason == corev1.PodReasonUnschedulable, err
	})
	revoke()
	cluster.Await(t, "the taint of Stratos is taken away", func(ctx context.Context) (bool, error) {
		if err := l.Client.Get(ctx, client.ObjectKeyFromObject(n), n); err != nil {
			return false, err
		}
		n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(x corev1.Taint) bool { return x.Key == v1alpha1.TaintStandby })
		err := l.Client.Update(ctx, n)
		if apierrors.IsConflict(err) {
			return false, nil
		}
		return err == nil, err
	})
	cluster.Await(t, "the pod runs on the node", func(ctx context.Context) (bool, error) {
		err := read(ctx)
		return pod.Status.Phase == corev1.PodRunning && pod.Spec.NodeName == n.Name, err
	})
}

// publishedCluster is what kubeadm has published of the cluster.
func publishedCluster(t *testing.T, l *cluster.Cluster) userdata.Cluster {
	t.Helper()
	info := &corev1.ConfigMap{}
	key := client.ObjectKey{Namespace: metav1.NamespacePublic, Name: "cluster-info"}
	if err := l.Client.Get(t.Context(), key, info); err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.Load([]byte(info.Data["kubeconfig"]))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range config.Clusters {
		return userdata.Cluster{Endpoint: c.Server,
			CertificateAuthority: base64.StdEncoding.EncodeToString(c.CertificateAuthorityData)}
	}
	t.Fatal("cluster-info has no cluster")
	return userdata.Cluster{}
}

// machine is a container of the node image that has joined nothing: what an EC2 instance of an
// image with containerd, kubelet and kubeadm is.
type machine struct{ name, metadata string }

// newMachine starts it like the control plane's node, and its metadata service beside it. kubeadm's
// preflight checks are for a machine of its own, which a container is not: kind leaves them out.
func newMachine(t *testing.T, l *cluster.Cluster, name string) machine {
	t.Helper()
	control := l.Name + "-control-plane"
	inspect := func(format string) string { return cluster.MustDocker(t, "inspect", "-f", format, control) }
	network := strings.Fields(inspect("{{range $name, $_ := .NetworkSettings.Networks}}{{$name}} {{end}}"))[0]
	args := []string{"run", "-d", "-t", "--privileged", "--security-opt", "seccomp=unconfined", "--security-opt",
		"apparmor=unconfined", "--cgroupns", "private", "--tmpfs", "/tmp", "--tmpfs", "/run", "--volume", "/var", "--volume",
		"/lib/modules:/lib/modules:ro", "--network", network, "--hostname", name, "--name", name,
		"--label", "io.x-k8s.kind.cluster=" + l.Name, "--label", "io.x-k8s.kind.role=worker"}
	for _, variable := range strings.Fields(inspect("{{range .Config.Env}}{{.}} {{end}}")) {
		if strings.HasPrefix(variable, "KIND_") {
			args = append(args, "--env", variable)
		}
	}
	t.Cleanup(func() {
		ctx := context.Background()
		if out, err := cluster.Docker(ctx, "exec", name, "journalctl", "-u", "stratos-join", "--no-pager"); t.Failed() {
			t.Logf("stratos-join: %v\n%s", err, out)
		}
		if _, err := cluster.Docker(ctx, "rm", "-f", "-v", name); err != nil {
			t.Error(err)
		}
		err := l.Client.Delete(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
		if client.IgnoreNotFound(err) != nil {
			t.Error(err)
		}
	})
	cluster.MustDocker(t, append(args, inspect("{{.Config.Image}}"))...)
	gateway := inspect("{{range .NetworkSettings.Networks}}{{.Gateway}} {{end}}")
	m := machine{name: name, metadata: serveMetadata(t, strings.Fields(gateway)[0], name)}
	m.write(t, "/usr/local/sbin/kubeadm", "#!/bin/sh\nexec /usr/bin/kubeadm \"$@\" --ignore-preflight-errors=all\n")
	m.write(t, "/etc/systemd/system/stratos-join.service.d/metadata.conf",
		"[Service]\nEnvironment=STRATOS_METADATA="+m.metadata+"\n")
	return m
}

// write puts a program or a file into the machine.
func (m machine) write(t *testing.T, path, text string) {
	t.Helper()
	cluster.MustDocker(t, "exec", m.name, "sh", "-euc", `mkdir -p "${1%/*}"; printf %s "$2" >"$1"; chmod 755 "$1"`, "sh",
		path, text)
}

// boot does what cloud-init does with the first part, which is Stratos's script.
func (m machine) boot(t *testing.T, text string) {
	t.Helper()
	message, err := mail.ReadMessage(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	_, parameters, err := mime.ParseMediaType(message.Header.Get("Content-Type"))
	if err != nil {
		t.Fatal(err)
	}
	part, err := multipart.NewReader(message.Body, parameters["boundary"]).NextPart()
	if err != nil {
		t.Fatal(err)
	}
	script, err := io.ReadAll(part)
	if err != nil || !strings.HasPrefix(string(script), "#!/bin/sh\n") {
		t.Fatalf("the first part is no script: %v\n%s", err, script)
	}
	m.write(t, "/root/part-001", string(script))
	cluster.Await(t, "systemd answers", func(ctx context.Context) (bool, error) {
		_, err := cluster.Docker(ctx, "exec", m.name, "systemctl", "show-environment")
		return err == nil, err
	})
	cluster.MustDocker(t, "exec", m.name, "/root/part-001")
}

// serveMetadata serves what EC2's metadata service says of the instance, to those that have a
// session token (IMDSv2), and returns its URL.
func serveMetadata(t *testing.T, address, name string) string {
	t.Helper()
	listener, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
	if err != nil {
		t.Fatal(err)
	}
	const session = "a-session-of-this-machine"
	mux := http.NewServeMux()
	mux.HandleFunc("PUT /latest/api/token", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-aws-ec2-metadata-token-ttl-seconds") == "" {
			http.Error(w, "no time to live", http.StatusBadRequest)
			return
		}
		fmt.Fprint(w, session)
	})
	for path, says := range map[string]string{"local-hostname": name, "instance-id": "i-0123456789abcdef0",
		"placement/availability-zone": "us-east-1a"} {
		mux.HandleFunc("GET /latest/meta-data/"+path, func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("X-aws-ec2-metadata-token") != session {
				http.Error(w, "no session", http.StatusUnauthorized)
				return
			}
			fmt.Fprint(w, says)
		})
	}
	server := &http.Server{Handler: mux, ReadHeaderTimeout: cluster.Patience}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	return "http://" + listener.Addr().String()
}
