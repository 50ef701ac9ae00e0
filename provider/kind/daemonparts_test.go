package kind

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/volume"
	"github.com/docker/docker/pkg/stdcopy"
)

func (d *daemon) serveVolumes(w http.ResponseWriter, r *http.Request, parts []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch r.Method {
	case http.MethodGet:
		out := volume.ListResponse{Volumes: []*volume.Volume{}}
		for _, v := range d.volumes {
			if labelled(v.Labels, wanted(r)["label"]) {
				out.Volumes = append(out.Volumes, v)
			}
		}
		reply(w, http.StatusOK, out)
	case http.MethodPost:
		var body volume.CreateOptions
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			answer(w, http.StatusBadRequest, err.Error())
			return
		}
		if i := slices.IndexFunc(d.volumes, func(v *volume.Volume) bool { return v.Name == body.Name }); i >= 0 {
			reply(w, http.StatusCreated, d.volumes[i])
			return
		}
		v := &volume.Volume{Name: body.Name, Labels: body.Labels}
		d.volumes = append(d.volumes, v)
		reply(w, http.StatusCreated, v)
	case http.MethodDelete:
		before := len(d.volumes)
		d.volumes = slices.DeleteFunc(d.volumes, func(v *volume.Volume) bool { return v.Name == parts[0] })
		if len(d.volumes) == before {
			answer(w, http.StatusNotFound, "get "+parts[0]+": no such volume")
			return
		}
		w.WriteHeader(http.StatusNoContent)
	}
}

// serveExec plays `kubeadm token create` in the control plane: each run prints another token.
func (d *daemon) serveExec(w http.ResponseWriter, r *http.Request, verb string) {
	d.mu.Lock()
	if verb == "json" {
		exit := 0
		if d.tokenFails {
			exit = 1
		}
		d.mu.Unlock()
		reply(w, http.StatusOK, container.ExecInspect{ExitCode: exit})
		return
	}
	d.tokens++
	token := d.tokens
	d.mu.Unlock()
	_, _ = io.Copy(io.Discard, r.Body) // what is unread when a connection is closed resets it
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		answer(w, http.StatusInternalServerError, err.Error())
		return
	}
	defer func() { _ = conn.Close() }()
	_, _ = fmt.Fprint(
		conn,
		"HTTP/1.1 101 UPGRADED\r\nContent-Type: application/vnd.docker.raw-stream\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n",
	)
	_, _ = fmt.Fprint(stdcopy.NewStdWriter(conn, stdcopy.Stderr), "a warning\n")
	_, _ = fmt.Fprintf(stdcopy.NewStdWriter(conn, stdcopy.Stdout),
		"kubeadm join lab-control-plane:6443 --token abcdef.%016d --discovery-token-ca-cert-hash sha256:%064d \n", token, 7)
}
