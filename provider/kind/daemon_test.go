package kind

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/api/types/system"
	"github.com/docker/docker/api/types/volume"
	"github.com/docker/docker/client"
)

// daemon plays Docker 20.10 over HTTP in the part that the provider uses: what a call answers in
// which state of a container, that names are given once, that a stop returns when the container has
// ended, that labels never change and volumes that exist are returned as they are.
type daemon struct {
	server *httptest.Server

	// mu guards all below.
	mu         sync.Mutex
	containers []*box
	volumes    []*volume.Volume
	images     map[string]string
	tokens     int
	tokenFails bool
	// calls are the requests in order, as METHOD path.
	calls []string
	// refuse answers a request with an error; nil: served.
	refuse func(method, path string) *refusal
	// shutdown is how long a guest takes to end when asked.
	shutdown time.Duration
}

type refusal struct {
	status int
	words  string
}

// box is one container.
type box struct {
	id, name, image, state string
	created, started       time.Time
	exit                   int
	config                 container.Config
	host                   container.HostConfig
	networks               map[string]*network.EndpointSettings
	files                  map[string]string
	// deaf guests do not end when asked.
	deaf bool
	// ended is closed when this run is over.
	ended chan struct{}
}

const (
	testCluster  = "lab"
	controlID    = "c0ffee"
	testImage    = "kindest/node:v1.36.3"
	testImageID  = "sha256:1111"
	otherImageID = "sha256:2222"
)

func newDaemon(t *testing.T) *daemon {
	t.Helper()
	d := &daemon{images: map[string]string{testImage: testImageID, testImageID: testImageID, "other:1": otherImageID},
		shutdown: 2 * time.Millisecond}
	d.containers = append(d.containers, &box{
		id: controlID, name: "lab-control-plane", image: testImageID, state: container.StateRunning, created: time.Now(),
		config: container.Config{Image: testImage, Env: []string{"KIND_DNS_SEARCH=", "HTTPS_PROXY=http://proxy:1",
			"PATH=/bin", "KUBECONFIG=/etc/kubernetes/admin.conf"},
			Labels: map[string]string{labelCluster: testCluster, labelRole: roleControl}},
		host: container.HostConfig{Binds: []string{"/lib/modules:/lib/modules:ro", devMapper}, UsernsMode: "host",
			Resources: container.Resources{
				Devices: []container.DeviceMapping{{PathOnHost: "/dev/fuse", PathInContainer: "/dev/fuse",
					CgroupPermissions: "rwm"}}}},
		networks: map[string]*network.EndpointSettings{kindNetwork: {}}, ended: make(chan struct{}),
	})
	d.server = httptest.NewServer(d)
	t.Cleanup(func() {
		d.server.CloseClientConnections()
		d.server.Close()
	})
	return d
}

// provider returns a provider that calls the daemon.
func (d *daemon) provider(t *testing.T) *Provider {
	t.Helper()
	docker, err := client.NewClientWithOpts(client.WithHost("tcp://"+d.server.Listener.Addr().String()),
		client.WithAPIVersionNegotiation())
	if err != nil {
		t.Fatal(err)
	}
	p := New(Options{Docker: docker, StopPause: time.Millisecond})
	t.Cleanup(func() {
		p.Close()
		_ = docker.Close()
	})
	return p
}

// box returns the container with that name; nil where there is none.
func (d *daemon) box(name string) *box {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.find(name)
}

func (d *daemon) find(key string) *box {
	for _, b := range d.containers {
		if b.id == key || b.name == key {
			return b
		}
	}
	return nil
}

// set changes a container as something else than the provider would.
func (d *daemon) set(name string, change func(*box)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	change(d.find(name))
}

// count returns how many requests began with the words.
func (d *daemon) count(words string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := 0
	for _, c := range d.calls {
		if strings.HasPrefix(c, words) {
			n++
		}
	}
	return n
}

// over ends the container's run. The lock is held.
func (b *box) over(exit int) {
	if b.state == container.StateRunning || b.state == container.StatePaused {
		b.state, b.exit = container.StateExited, exit
		close(b.ended)
	}
}

func (d *daemon) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Api-Version", "1.41")
	path := regexp.MustCompile(`^/v1\.\d+`).ReplaceAllString(r.URL.Path, "")
	d.mu.Lock()
	d.calls = append(d.calls, r.Method+" "+path)
	refuse := d.refuse
	d.mu.Unlock()
	if version := strings.TrimPrefix(r.URL.Path, path); path != "/_ping" && r.URL.Path != path && version == "" {
		answer(w, http.StatusBadRequest, "client is newer than the daemon")
		return
	}
	if strings.HasPrefix(r.URL.Path, "/v") && !strings.HasPrefix(r.URL.Path, "/v1.41/") {
		answer(w, http.StatusBadRequest, "client version is too new. Maximum supported API version is 1.41")
		return
	}
	if refuse != nil {
		if no := refuse(r.Method, path); no != nil {
			answer(w, no.status, no.words)
			return
		}
	}
	d.route(w, r, strings.Split(strings.Trim(path, "/"), "/"))
}

func (d *daemon) route(w http.ResponseWriter, r *http.Request, parts []string) {
	switch key := parts[0]; {
	case key == "_ping":
	case key == "info":
		reply(w, http.StatusOK, system.Info{NCPU: 4, MemTotal: 16 << 30})
	case key == "images":
		d.imageJSON(w, strings.Join(parts[1:len(parts)-1], "/"))
	case key == "volumes":
		d.serveVolumes(w, r, parts[1:])
	case key == "exec":
		d.serveExec(w, r, parts[2])
	case len(parts) == 2 && parts[1] == "json":
		d.list(w, r)
	case len(parts) == 2 && parts[1] == "create":
		d.create(w, r)
	default:
		d.mu.Lock()
		b := d.find(parts[1])
		d.mu.Unlock()
		if b == nil {
			answer(w, http.StatusNotFound, "No such container: "+parts[1])
			return
		}
		d.serveBox(w, r, b, append(parts, "")[2])
	}
}

func (d *daemon) serveBox(w http.ResponseWriter, r *http.Request, b *box, verb string) {
	switch verb {
	case "json":
		d.inspect(w, b)
	case "start":
		d.start(w, b)
	case "stop":
		d.stop(w, r, b)
	case "kill":
		d.kill(w, b)
	case "archive":
		d.unpack(w, r, b)
	case "exec":
		reply(w, http.StatusCreated, map[string]string{"Id": "exec1"})
	case "":
		d.remove(w, r, b)
	}
}

func reply(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

func answer(w http.ResponseWriter, status int, words string) {
	reply(w, status, map[string]string{"message": words})
}

// wanted reads the filters of a list.
func wanted(r *http.Request) map[string][]string {
	var sets map[string]map[string]bool
	_ = json.Unmarshal([]byte(r.URL.Query().Get("filters")), &sets)
	out := map[string][]string{}
	for key, set := range sets {
		out[key] = slices.Sorted(maps.Keys(set))
	}
	return out
}

func labelled(labels map[string]string, all []string) bool {
	for _, want := range all {
		key, value, exact := strings.Cut(want, "=")
		got, ok := labels[key]
		if !ok || exact && got != value {
			return false
		}
	}
	return true
}

func (d *daemon) list(w http.ResponseWriter, r *http.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	filters, out := wanted(r), []container.Summary{}
	for _, b := range d.containers {
		named := len(filters["name"]) == 0 || slices.ContainsFunc(filters["name"], func(expr string) bool {
			return regexp.MustCompile(expr).MatchString("/" + b.name)
		})
		if !named || !labelled(b.config.Labels, filters["label"]) || r.URL.Query().Get("all") != "1" &&
			b.state != container.StateRunning {
			continue
		}
		status := "Up 3 seconds"
		if b.state == container.StateExited {
			status = fmt.Sprintf("Exited (%d) %d milliseconds ago", b.exit, time.Since(b.created).Milliseconds())
		}
		out = append(out, container.Summary{ID: b.id, Names: []string{"/" + b.name}, State: b.state, Status: status,
			Created: b.created.Unix(), Labels: b.config.Labels})
	}
	reply(w, http.StatusOK, out)
}

func (d *daemon) inspect(w http.ResponseWriter, b *box) {
	d.mu.Lock()
	defer d.mu.Unlock()
	reply(w, http.StatusOK, container.InspectResponse{
		ContainerJSONBase: &container.ContainerJSONBase{ID: b.id, Name: "/" + b.name, Image: b.image, HostConfig: &b.host,
			State: &container.State{
				Status: b.state, Running: b.state == container.StateRunning || b.state == container.StatePaused,
				Paused: b.state == container.StatePaused, StartedAt: b.started.Format(time.RFC3339Nano)}},
		Config: &b.config, NetworkSettings: &container.NetworkSettings{Networks: b.networks},
	})
}

func (d *daemon) create(w http.ResponseWriter, r *http.Request) {
	var body struct {
		container.Config
		HostConfig       container.HostConfig
		NetworkingConfig network.NetworkingConfig
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		answer(w, http.StatusBadRequest, err.Error())
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	name := r.URL.Query().Get("name")
	id, known := d.images[body.Image]
	switch {
	case !known:
		answer(w, http.StatusNotFound, "No such image: "+body.Image)
		return
	case d.find(name) != nil:
		answer(w, http.StatusConflict, `Conflict. The container name "/`+name+`" is already in use`)
		return
	}
	sum := sha256.Sum256(fmt.Append(nil, name, len(d.calls)))
	b := &box{
		id: hex.EncodeToString(sum[:]), name: name, image: id, state: container.StateCreated, created: time.Now(),
		config: body.Config, host: body.HostConfig, networks: body.NetworkingConfig.EndpointsConfig,
		files: map[string]string{},
	}
	d.containers = append(d.containers, b)
	reply(w, http.StatusCreated, container.CreateResponse{ID: b.id})
}

func (d *daemon) start(w http.ResponseWriter, b *box) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if b.state == container.StateRunning {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	b.state, b.started, b.ended = container.StateRunning, time.Now(), make(chan struct{})
	w.WriteHeader(http.StatusNoContent)
}

func (d *daemon) stop(w http.ResponseWriter, r *http.Request, b *box) {
	d.mu.Lock()
	if b.state != container.StateRunning {
		d.mu.Unlock()
		w.WriteHeader(http.StatusNotModified)
		return
	}
	grace, err := time.ParseDuration(r.URL.Query().Get("t") + "s")
	if err != nil {
		grace = 10 * time.Second
	}
	if !b.deaf {
		grace = d.shutdown
	}
	ended := b.ended
	d.mu.Unlock()
	select {
	case <-time.After(grace):
		d.mu.Lock()
		if b.ended == ended {
			b.over(0)
		}
		d.mu.Unlock()
	case <-ended:
	case <-r.Context().Done():
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (d *daemon) kill(w http.ResponseWriter, b *box) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if b.state != container.StateRunning && b.state != container.StatePaused {
		answer(w, http.StatusConflict, "Cannot kill container: "+b.id+": Container "+b.id+" is not running")
		return
	}
	b.over(137)
	w.WriteHeader(http.StatusNoContent)
}

func (d *daemon) remove(w http.ResponseWriter, r *http.Request, b *box) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if b.state == container.StateRunning && r.URL.Query().Get("force") != "1" {
		answer(w, http.StatusConflict, "You cannot remove a running container")
		return
	}
	b.over(137)
	d.containers = slices.DeleteFunc(d.containers, func(other *box) bool { return other == b })
	w.WriteHeader(http.StatusNoContent)
}

// unpack keeps the archive's files by path; a link is kept as "-> target", with the mode in front
// of the text of a file.
func (d *daemon) unpack(w http.ResponseWriter, r *http.Request, b *box) {
	found, reader := map[string]string{}, tar.NewReader(r.Body)
	for {
		h, err := reader.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			answer(w, http.StatusBadRequest, err.Error())
			return
		}
		text, _ := io.ReadAll(reader)
		switch h.Typeflag {
		case tar.TypeSymlink:
			found["/"+h.Name] = "-> " + h.Linkname
		case tar.TypeReg:
			found["/"+h.Name] = fmt.Sprintf("%o %s", h.Mode, text)
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	maps.Copy(b.files, found)
	w.WriteHeader(http.StatusOK)
}

func (d *daemon) imageJSON(w http.ResponseWriter, name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	id, ok := d.images[name]
	if !ok {
		answer(w, http.StatusNotFound, "No such image: "+name)
		return
	}
	reply(w, http.StatusOK, image.InspectResponse{ID: id})
}
