package controlplane

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// AuditLog is the API server's record of requests: who, with which user agent, did what to which
// object; no bodies (level Metadata).
type AuditLog struct {
	// Enabled turns it on.
	Enabled bool
	// Path is the file; empty is audit.log in the log folder.
	Path string
	// Reads records get, list and watch too. Without it the log stays small: simulated kubelets and
	// controllers mostly read.
	Reads bool
}

// stageComplete is the one stage recorded: every request once, when its answer is known (a watch:
// when it ends).
const stageComplete = "ResponseComplete"

// auditPolicy drops the stages that would record a request twice. A request that panics is recorded
// at the stage Panic.
const (
	auditPolicy = `{"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived", "ResponseStarted"], "rules": [%s{"level": "Metadata"}]}`
	noReads     = `{"level": "None", "verbs": ["get", "list", "watch"]}, `
)

func (c *ControlPlane) writeAuditPolicy() error {
	rule := noReads
	if c.options.AuditLog.Reads {
		rule = ""
	}
	return os.WriteFile(c.auditPolicyPath(), fmt.Appendf(nil, auditPolicy, rule), 0o644)
}

func (c *ControlPlane) auditPolicyPath() string { return filepath.Join(c.dir, "audit-policy.json") }

func (c *ControlPlane) auditArgs() []string {
	if !c.options.AuditLog.Enabled {
		return nil
	}
	return []string{
		"--audit-policy-file=" + c.auditPolicyPath(),
		"--audit-log-path=" + c.AuditLogPath(),
		"--audit-log-mode=blocking", // a batch that is still in memory would be missing from the count
		"--audit-log-maxsize=0",     // never rotate: the reader knows one file
	}
}

// AuditLogPath is the audit log's file; it exists if Options.AuditLog.Enabled was set.
func (c *ControlPlane) AuditLogPath() string {
	if path := c.options.AuditLog.Path; path != "" {
		return path
	}
	return filepath.Join(c.logDir, "audit.log")
}

// AuditEvent is one answered request.
type AuditEvent struct {
	// Verb is get, list, watch, create, update, patch, delete or deletecollection.
	Verb string
	// User is for example "system:serviceaccount:kube-system:replicaset-controller".
	User   string
	Groups []string
	// UserAgent is what the client says about itself; most add a version and platform behind a slash.
	UserAgent string
	// Group, Resource and Subresource are for example "", "pods", "binding".
	Group       string
	Resource    string
	Subresource string
	Namespace   string
	// Name is empty for a create whose name the server generated, and for collections.
	Name string
	// Code is the HTTP status of the answer: refused writes (409, 422, 429) are recorded too.
	Code int
	// RequestURI has the query, for example dryRun=All.
	RequestURI string
	Received   time.Time
	Completed  time.Time
}

// IsWrite is true for every verb that changes objects, whether the server accepted it or not.
func (e AuditEvent) IsWrite() bool {
	switch e.Verb {
	case "create", "update", "patch", "delete", "deletecollection":
		return true
	default:
		return false
	}
}

// AuditFilter selects events.
type AuditFilter func(AuditEvent) bool

// ByUser selects the requests of exactly this user.
func ByUser(user string) AuditFilter {
	return func(e AuditEvent) bool { return e.User == user }
}

// ByUserAgent selects the requests whose user agent starts so.
func ByUserAgent(prefix string) AuditFilter {
	return func(e AuditEvent) bool { return strings.HasPrefix(e.UserAgent, prefix) }
}

// ByResource selects one resource, for example ("pods", "") or ("pods", "binding"). Subresources
// count as themselves only.
func ByResource(resource, subresource string) AuditFilter {
	return func(e AuditEvent) bool { return e.Resource == resource && e.Subresource == subresource }
}

// ByVerb selects one of several verbs.
func ByVerb(verbs ...string) AuditFilter {
	return func(e AuditEvent) bool {
		for _, verb := range verbs {
			if e.Verb == verb {
				return true
			}
		}
		return false
	}
}

// Accepted selects what the server answered with a status below 400.
func Accepted() AuditFilter {
	return func(e AuditEvent) bool { return e.Code < 400 }
}

// CountWrites counts the writes in the audit log at path that pass every filter. The server writes
// the line right after the answer, so a request that was answered a moment ago may be missing;
// tests that expect a number poll, those that expect no writes wait first.
func CountWrites(path string, filters ...AuditFilter) (int, error) {
	events, err := ReadAuditLog(path, append([]AuditFilter{AuditEvent.IsWrite}, filters...)...)
	return len(events), err
}

// ReadAuditLog returns the answered requests in the audit log at path that pass every filter, in
// the order they were answered. A line that is being written is left out. Errors: the file is
// missing, or a line is not an audit event.
func ReadAuditLog(path string, filters ...AuditFilter) ([]AuditEvent, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read the audit log: %w", err)
	}
	defer file.Close()
	var events []AuditEvent
	for decoder := json.NewDecoder(file); ; {
		var line auditLine
		err := decoder.Decode(&line)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return events, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read the audit log %s: %w", path, err)
		}
		if event := line.event(); line.Stage == stageComplete && passes(event, filters) {
			events = append(events, event)
		}
	}
}

func passes(event AuditEvent, filters []AuditFilter) bool {
	for _, filter := range filters {
		if !filter(event) {
			return false
		}
	}
	return true
}

// auditLine is the part of audit.k8s.io/v1 Event that is used.
type auditLine struct {
	Stage      string `json:"stage"`
	RequestURI string `json:"requestURI"`
	Verb       string `json:"verb"`
	UserAgent  string `json:"userAgent"`
	User       struct {
		Username string   `json:"username"`
		Groups   []string `json:"groups"`
	} `json:"user"`
	ObjectRef struct {
		APIGroup    string `json:"apiGroup"`
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
		Namespace   string `json:"namespace"`
		Name        string `json:"name"`
	} `json:"objectRef"`
	ResponseStatus struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
	Received  time.Time `json:"requestReceivedTimestamp"`
	Completed time.Time `json:"stageTimestamp"`
}

func (l auditLine) event() AuditEvent {
	return AuditEvent{
		Verb: l.Verb, User: l.User.Username, Groups: l.User.Groups, UserAgent: l.UserAgent,
		Group: l.ObjectRef.APIGroup, Resource: l.ObjectRef.Resource, Subresource: l.ObjectRef.Subresource,
		Namespace: l.ObjectRef.Namespace, Name: l.ObjectRef.Name,
		Code: l.ResponseStatus.Code, RequestURI: l.RequestURI, Received: l.Received, Completed: l.Completed,
	}
}
