package fake

import (
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"

	"github.com/go-chi/chi/v5"
)

const (
	// maxRequest bounds a request: user data is 16 KiB at most, a class with every field a few more.
	maxRequest = 1 << 20
	// tagParameter begins the query parameters that select by tag: ?tag.managed-by=stratos.
	tagParameter = "tag."
)

// Handler serves the API over HTTP. The routes are those that Client calls; every body is JSON and
// bounded.
func Handler(cloud *Cloud) http.Handler {
	s := server{cloud: cloud}
	r := chi.NewRouter()
	r.NotFound(func(w http.ResponseWriter, r *http.Request) {
		refuse(w, http.StatusNotFound, "no such path: "+r.URL.Path)
	})
	r.MethodNotAllowed(func(w http.ResponseWriter, r *http.Request) {
		refuse(w, http.StatusMethodNotAllowed, r.Method+" is not allowed on "+r.URL.Path)
	})
	r.Get("/healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") })
	r.Route("/v1", func(r chi.Router) {
		r.Get("/instances", s.list)
		r.Post("/instances", s.launch)
		r.Get("/instances/{id}", s.get)
		r.Delete("/instances/{id}", s.terminate)
		r.Get("/instances/{id}/state", s.state)
		r.Post("/instances/{id}/start", s.start)
		r.Post("/instances/{id}/stop", s.stop)
		r.Patch("/instances/{id}/tags", s.tags)
		r.Put("/instances/{id}/type", s.changeType)
		r.Post("/instances/{id}/behind", s.behind)
		r.Post("/resolve", s.resolve)
		r.Get("/faults", s.faults)
		r.Post("/faults", s.addFault)
		r.Delete("/faults", s.clearFaults)
		r.Patch("/times", s.setTimes)
		r.Put("/capacity", s.setCapacity)
		r.Put("/limits", s.setLimits)
		r.Get("/calls", s.calls)
		r.Get("/snapshot", s.snapshot)
	})
	return r
}

type server struct{ cloud *Cloud }

func (s server) list(w http.ResponseWriter, r *http.Request) {
	tags := map[string]string{}
	for key, values := range r.URL.Query() {
		name, ok := strings.CutPrefix(key, tagParameter)
		if !ok || len(values) != 1 {
			refuse(w, http.StatusBadRequest, "parameter "+key+": want "+tagParameter+"NAME=VALUE, once")
			return
		}
		tags[name] = values[0]
	}
	instances, err := s.cloud.ListInstances(r.Context(), tags)
	answer(w, instances, err)
}

func (s server) launch(w http.ResponseWriter, r *http.Request) {
	var body launchBody
	if !read(w, r, &body) {
		return
	}
	instance, err := s.cloud.LaunchInstance(r.Context(), body.Class, body.Request)
	answer(w, instance, err)
}

func (s server) get(w http.ResponseWriter, r *http.Request) {
	instance, err := s.cloud.GetInstance(r.Context(), instanceID(r))
	answer(w, instance, err)
}

func (s server) state(w http.ResponseWriter, r *http.Request) {
	state, err := s.cloud.GetInstanceState(r.Context(), instanceID(r))
	answer(w, stateBody{State: state}, err)
}

func (s server) start(w http.ResponseWriter, r *http.Request) {
	answer(w, nil, s.cloud.StartInstance(r.Context(), instanceID(r)))
}

func (s server) stop(w http.ResponseWriter, r *http.Request) {
	var body stopBody
	if read(w, r, &body) {
		answer(w, nil, s.cloud.StopInstance(r.Context(), instanceID(r), body.Force))
	}
}

func (s server) terminate(w http.ResponseWriter, r *http.Request) {
	answer(w, nil, s.cloud.TerminateInstance(r.Context(), instanceID(r)))
}

func (s server) tags(w http.ResponseWriter, r *http.Request) {
	var body tagsBody
	if read(w, r, &body) {
		answer(w, nil, s.cloud.UpdateInstanceTags(r.Context(), instanceID(r), body.Tags))
	}
}

func (s server) changeType(w http.ResponseWriter, r *http.Request) {
	var body typeBody
	if read(w, r, &body) {
		answer(w, nil, s.cloud.ChangeInstanceType(r.Context(), instanceID(r), body.Type))
	}
}

func (s server) behind(w http.ResponseWriter, r *http.Request) {
	var body actionBody
	if read(w, r, &body) {
		answer(w, nil, s.cloud.Behind(r.Context(), instanceID(r), body.Action))
	}
}

func (s server) resolve(w http.ResponseWriter, r *http.Request) {
	var body classBody
	if !read(w, r, &body) {
		return
	}
	status, err := s.cloud.ResolveNodeClass(r.Context(), body.Class)
	answer(w, status, err)
}

func (s server) faults(w http.ResponseWriter, r *http.Request) {
	faults, err := s.cloud.Faults(r.Context())
	answer(w, faults, err)
}

func (s server) addFault(w http.ResponseWriter, r *http.Request) {
	var body Fault
	if !read(w, r, &body) {
		return
	}
	id, err := s.cloud.AddFault(r.Context(), body)
	answer(w, idBody{ID: id}, err)
}

func (s server) clearFaults(w http.ResponseWriter, r *http.Request) {
	answer(w, nil, s.cloud.ClearFaults(r.Context()))
}

func (s server) setTimes(w http.ResponseWriter, r *http.Request) {
	var body Times
	if read(w, r, &body) {
		answer(w, nil, s.cloud.SetTimes(r.Context(), body))
	}
}

func (s server) setCapacity(w http.ResponseWriter, r *http.Request) {
	var body []Capacity
	if read(w, r, &body) {
		answer(w, nil, s.cloud.SetCapacity(r.Context(), body))
	}
}

func (s server) setLimits(w http.ResponseWriter, r *http.Request) {
	var body map[Op]Limit
	if read(w, r, &body) {
		answer(w, nil, s.cloud.SetLimits(r.Context(), body))
	}
}

func (s server) calls(w http.ResponseWriter, r *http.Request) {
	calls, err := s.cloud.Calls(r.Context())
	answer(w, calls, err)
}

func (s server) snapshot(w http.ResponseWriter, r *http.Request) {
	views, err := s.cloud.Snapshot(r.Context())
	answer(w, views, err)
}

// instanceID undoes the escaping that chi leaves in place when an id holds a slash.
func instanceID(r *http.Request) string {
	raw := chi.URLParam(r, "id")
	if r.URL.RawPath == "" {
		return raw
	}
	if id, err := url.PathUnescape(raw); err == nil {
		return id
	}
	return raw
}

// read decodes a bounded JSON body, or answers with a 4xx that says what is wrong and returns
// false.
func read(w http.ResponseWriter, r *http.Request, into any) bool {
	if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || media != "application/json" {
		refuse(w, http.StatusUnsupportedMediaType, "want Content-Type: application/json")
		return false
	}
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxRequest))
	decoder.DisallowUnknownFields()
	err := decoder.Decode(into)
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		refuse(w, http.StatusRequestEntityTooLarge, "the body is larger than 1 MiB")
	case err != nil:
		refuse(w, http.StatusBadRequest, "the body is not what this path takes: "+err.Error())
	case decoder.More():
		refuse(w, http.StatusBadRequest, "the body holds more than one JSON value")
	default:
		return true
	}
	return false
}

func refuse(w http.ResponseWriter, status int, message string) {
	write(w, status, errorBody{Code: codeBadRequest, Message: message})
}

func answer(w http.ResponseWriter, body any, err error) {
	switch {
	case err != nil:
		status, text := encodeError(err)
		write(w, status, text)
	case body == nil:
		w.WriteHeader(http.StatusNoContent)
	default:
		write(w, http.StatusOK, body)
	}
}

func write(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	// An error here means that the client has gone: there is no one to tell.
	_ = json.NewEncoder(w).Encode(body)
}
