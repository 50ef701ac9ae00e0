package kind

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
)

func launched(t *testing.T, p *Provider, class *v1alpha1.KindNodeClass, token string) *provider.Instance {
	t.Helper()
	instance, err := p.LaunchInstance(t.Context(), class, provider.LaunchRequest{ClientToken: token,
		Tags: map[string]string{"stratos.sh/pool": "a"}})
	if err != nil {
		t.Fatal(err)
	}
	return instance
}

// TestTheContainerIsOneOfKindsWorkers: as kind v0.33 makes them, but for the restart policy, and
// with what kind found out for the machine.
func TestTheContainerIsOneOfKindsWorkers(t *testing.T) {
	d := newDaemon(t)
	class := testClass()
	class.Spec.ExtraMounts = []v1alpha1.KindMount{{HostPath: "/srv", ContainerPath: "/data"},
		{HostPath: "/etc/ssl", ContainerPath: "/ssl", ReadOnly: true}}
	made := d.box(string(launched(t, d.provider(t), class, "one").ID))
	init := false
	want := container.HostConfig{
		Privileged: true, SecurityOpt: []string{"seccomp=unconfined", "apparmor=unconfined"},
		Tmpfs:       map[string]string{"/tmp": "", "/run": ""},
		Binds:       []string{"/lib/modules:/lib/modules:ro", devMapper, "/srv:/data", "/etc/ssl:/ssl:ro"},
		NetworkMode: "kind", RestartPolicy: container.RestartPolicy{Name: "no"}, CgroupnsMode: "private", UsernsMode: "host",
		Init: &init,
		Resources: container.Resources{Devices: []container.DeviceMapping{{PathOnHost: "/dev/fuse",
			PathInContainer: "/dev/fuse", CgroupPermissions: "rwm"}}},
	}
	if diff := cmp.Diff(want, made.host); diff != "" {
		t.Errorf("host configuration (-want +got):\n%s", diff)
	}
	wantLabels := map[string]string{labelCluster: "lab", labelRole: "worker", labelClass: "small", labelToken: "one",
		"stratos.sh/pool": "a"}
	if diff := cmp.Diff(wantLabels, made.config.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"KIND_DNS_SEARCH=", "HTTPS_PROXY=http://proxy:1"}, made.config.Env); diff != "" {
		t.Errorf("environment (-want +got):\n%s", diff)
	}
	if _, ok := made.config.Volumes["/var"]; !ok || !made.config.Tty || made.config.Hostname != made.name ||
		made.networks["kind"] == nil {
		t.Errorf("volumes %v, tty %v, host name %q of %q, networks %v", made.config.Volumes, made.config.Tty,
			made.config.Hostname, made.name, made.networks)
	}
	if len(made.name) > 63 {
		t.Errorf("%q is longer than a host name may be", made.name)
	}
}

func TestTheImageIsTheOneThatTheClassShows(t *testing.T) {
	for name, c := range map[string]struct {
		spec, status, want string
	}{
		"the control plane's where the class names none": {"", "", testImage},
		"the class's own": {"other:1", "", "other:1"},
		"what was resolved, so that drift compares with it": {testImage, otherImageID, otherImageID},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDaemon(t)
			d.images[otherImageID] = otherImageID
			class := testClass()
			class.Spec.Image, class.Status.Image = c.spec, c.status
			if got := d.box(string(launched(t, d.provider(t), class, "one").ID)).config.Image; got != c.want {
				t.Errorf("made from %s, want %s", got, c.want)
			}
		})
	}
}

// TestTheFirstBootJoinsByItself: all that it needs is in the container before it starts.
func TestTheFirstBootJoinsByItself(t *testing.T) {
	d := newDaemon(t)
	class := testClass()
	class.Spec.Reserved = corev1.ResourceList{"cpu": resource.MustParse("500m"), "memory": resource.MustParse("2Gi")}
	class.Spec.BootScript = "systemctl poweroff\n"
	p := d.provider(t)
	made := d.box(string(launched(t, p, class, "one").ID))
	var join map[string]any
	mode, text, _ := strings.Cut(made.files["/kind/stratos/join.json"], " ")
	if err := json.Unmarshal([]byte(text), &join); err != nil || mode != "600" {
		t.Fatalf("join.json, mode %s: %v", mode, err)
	}
	want := map[string]any{
		"apiVersion": "kubeadm.k8s.io/v1beta4", "kind": "JoinConfiguration", "skipPhases": []any{"preflight"},
		"discovery": map[string]any{"bootstrapToken": map[string]any{
			"apiServerEndpoint": "lab-control-plane:6443", "token": "abcdef.0000000000000001",
			"caCertHashes": []any{"sha256:" + strings.Repeat("0", 63) + "7"}}},
		"nodeRegistration": map[string]any{
			"name": made.name, "criSocket": "unix:///run/containerd/containerd.sock",
			"taints": []any{map[string]any{"key": "stratos.sh/standby", "effect": "NoSchedule"}},
			"kubeletExtraArgs": []any{
				map[string]any{"name": "node-ip", "value": "@ADDRESS@"},
				map[string]any{"name": "provider-id", "value": "kind://docker/lab/" + made.name},
				map[string]any{"name": "node-labels",
					"value": "topology.kubernetes.io/zone=lab,node.kubernetes.io/instance-type=small"},
			}},
		"patches": map[string]any{"directory": "/kind/stratos/patches"},
	}
	if diff := cmp.Diff(want, join); diff != "" {
		t.Errorf("join configuration (-want +got):\n%s", diff)
	}
	for path, want := range map[string]string{
		"/kind/stratos/patches/kubeletconfiguration0+merge.json":                 `644 {"systemReserved":{"cpu":"500m","memory":"2Gi"}}`,
		"/kind/stratos/boot-script":                                              "700 systemctl poweroff\n",
		"/etc/systemd/system/multi-user.target.wants/stratos-first-boot.service": "-> /etc/systemd/system/stratos-first-boot.service",
	} {
		if got := made.files[path]; got != want {
			t.Errorf("%s holds %q, want %q", path, got, want)
		}
	}
	if !strings.HasPrefix(made.files["/kind/stratos/first-boot"], "755 #!/bin/bash\n") ||
		!strings.Contains(made.files["/etc/systemd/system/stratos-first-boot.service"],
			"\nExecStart=/kind/stratos/first-boot\n") {
		t.Error("the unit and the program it runs are not both there")
	}
	wantOrder := []string{"PUT /containers/" + made.id + "/archive", "POST /containers/" + made.id + "/start"}
	if got := d.only(wantOrder...); !cmp.Equal(wantOrder, got) {
		t.Errorf("asked %q, want %q", got, wantOrder)
	}
}

// only returns the requests among those that are looked for, in the order in which they came.
func (d *daemon) only(wanted ...string) []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []string
	for _, c := range d.calls {
		for _, w := range wanted {
			if c == w {
				out = append(out, c)
			}
		}
	}
	return out
}

func TestLaunchesShareAKeyUntilItGrowsOld(t *testing.T) {
	d := newDaemon(t)
	p := d.provider(t)
	launched(t, p, testClass(), "one")
	launched(t, p, testClass(), "two")
	if n := d.count("POST /exec/"); n != 1 {
		t.Errorf("two launches made %d tokens, want one", n)
	}
	p.mu.Lock()
	old := p.keys[controlID]
	old.made = time.Now().Add(-keyUse - time.Second)
	p.keys[controlID] = old
	p.mu.Unlock()
	made := d.box(string(launched(t, p, testClass(), "three").ID))
	if n := d.count("POST /exec/"); n != 2 || !strings.Contains(made.files["/kind/stratos/join.json"],
		"abcdef.0000000000000002") {
		t.Errorf("after %s there are %d tokens, and the node joins by %s", keyUse, n, made.files["/kind/stratos/join.json"])
	}
}

// TestALaunchGoesOnWhereAnotherEnded: a process that was killed between making and starting leaves
// a container that runs nothing.
func TestALaunchGoesOnWhereAnotherEnded(t *testing.T) {
	d := newDaemon(t)
	first, second := d.provider(t), d.provider(t)
	id := launched(t, first, testClass(), "one").ID
	d.set(string(id), func(b *box) { b.state, b.files = container.StateCreated, map[string]string{} })
	if state, err := second.GetInstanceState(t.Context(), string(id)); err != nil || state != provider.InstancePending {
		t.Errorf("half launched it is %s, %v", state, err)
	}
	if list, err := second.ListInstances(t.Context(), nil); err != nil || len(list) != 1 || !list[0].Unfinished {
		t.Errorf("half launched it is listed as %+v, %v; want it unfinished", list, err)
	}
	if err := second.StopInstance(t.Context(), string(id), true); !provider.IsIncorrectState(err) {
		t.Errorf("stop: %v, want an IncorrectStateError: nothing runs", err)
	}
	again := launched(t, second, testClass(), "one")
	if again.ID != id || again.State != provider.InstanceRunning || again.Unfinished ||
		d.box(string(id)).files["/kind/stratos/join.json"] == "" {
		t.Errorf("launched again it is %s, %s, with files %v", again.ID, again.State, d.box(string(id)).files)
	}
}

func TestALaunchThatFails(t *testing.T) {
	full := &refusal{http.StatusInternalServerError, "mkdir /var/lib/docker/overlay2/x: no space left on device"}
	for name, c := range map[string]struct {
		change func(*daemon, *v1alpha1.KindNodeClass)
		is     func(error) bool
		says   string
	}{
		"no kind cluster of that name": {func(_ *daemon, class *v1alpha1.KindNodeClass) { class.Spec.Cluster = "nobody" },
			provider.IsInvalidConfig, `spec.cluster: this Docker daemon runs no kind cluster "nobody"`},
		"another zone": {func(d *daemon, _ *v1alpha1.KindNodeClass) {}, provider.IsInvalidConfig, `zone: must be "lab"`},
		"an image that Docker does not have": {func(_ *daemon,
			class *v1alpha1.KindNodeClass) {
			class.Spec.Image = "kindest/node:v9"
		},
			provider.IsInvalidConfig, "spec.image: Docker does not have kindest/node:v9; pull it there first"},
		"a mount that Docker refuses": {func(d *daemon, _ *v1alpha1.KindNodeClass) {
			d.refuse = refusing("POST", "/containers/create", &refusal{http.StatusBadRequest, "invalid mount config"})
		}, provider.IsInvalidConfig, "invalid mount config"},
		"the control plane is stopped": {func(d *daemon,
			_ *v1alpha1.KindNodeClass) {
			d.find("lab-control-plane").state = container.StateExited
		},
			isPlain, "the control plane of the kind cluster lab is exited"},
		"no room to make it": {func(d *daemon, _ *v1alpha1.KindNodeClass) {
			d.refuse = refusing("POST",
				"/containers/create", full)
		}, provider.IsInsufficientCapacity, "no space left"},
		"no room to start it": {func(d *daemon, _ *v1alpha1.KindNodeClass) { d.refuse = refusing("POST", "/start", full) },
			provider.IsInsufficientCapacity, "no space left"},
		"no room for files": {func(d *daemon, _ *v1alpha1.KindNodeClass) { d.refuse = refusing("PUT", "/archive", full) },
			provider.IsInsufficientCapacity, "no space left"},
		"kubeadm has no token": {func(d *daemon, _ *v1alpha1.KindNodeClass) { d.tokenFails = true }, isPlain,
			"kubeadm ended with 1: a warning"},
	} {
		t.Run(name, func(t *testing.T) {
			d, class, request := newDaemon(t), testClass(), provider.LaunchRequest{ClientToken: "one"}
			c.change(d, class)
			if name == "another zone" {
				request.Zone = "elsewhere"
			}
			instance, err := d.provider(t).LaunchInstance(t.Context(), class, request)
			if instance != nil || err == nil || !c.is(err) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("instance %v, error %v, want %q", instance, err, c.says)
			}
			if len(d.containers) != 1 {
				t.Errorf("%d containers are left, want the control plane alone", len(d.containers))
			}
		})
	}
}

func isPlain(err error) bool {
	return !provider.IsInvalidConfig(err) && !provider.IsInsufficientCapacity(err) && !provider.IsNotFound(err)
}

// refusing refuses what ends in the path.
func refusing(method, path string, with *refusal) func(string, string) *refusal {
	return func(m, p string) *refusal {
		if m == method && strings.HasPrefix(p, "/containers/") && strings.HasSuffix(p, path) {
			return with
		}
		return nil
	}
}

func TestResolve(t *testing.T) {
	d := newDaemon(t)
	p, class := d.provider(t), testClass()
	class.Spec.Reserved = corev1.ResourceList{"cpu": resource.MustParse("1500m")}
	got, err := p.ResolveNodeClass(t.Context(), class)
	if err != nil {
		t.Fatal(err)
	}
	want := v1alpha1.KindNodeClassStatus{Image: testImageID, ControlPlane: "lab-control-plane",
		Capacity: corev1.ResourceList{"cpu": resource.MustParse("2500m"), "memory": resource.MustParse("16Gi")}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
	for field, change := range map[string]func(*v1alpha1.KindNodeClassSpec){
		"spec.cluster":       func(s *v1alpha1.KindNodeClassSpec) { s.Cluster = "nobody" },
		"spec.image":         func(s *v1alpha1.KindNodeClassSpec) { s.Image = "kindest/node:v9" },
		"spec.reserved[cpu]": func(s *v1alpha1.KindNodeClassSpec) { s.Reserved = corev1.ResourceList{"cpu": resource.MustParse("4")} },
		"spec.reserved[memory]": func(s *v1alpha1.KindNodeClassSpec) {
			s.Reserved = corev1.ResourceList{"memory": resource.MustParse("1Ti")}
		},
	} {
		class := testClass()
		change(&class.Spec)
		if _, err := p.ResolveNodeClass(t.Context(), class); !provider.IsInvalidConfig(err) ||
			!strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v", field, err)
		}
	}
}
