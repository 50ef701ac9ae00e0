package controlplane

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const auditSample = `{"stage":"ResponseComplete","verb":"create","user":{"username":"alice","groups":["g"]},"userAgent":"kubectl/v1","objectRef":{"resource":"pods","namespace":"a"},"responseStatus":{"code":201},"requestReceivedTimestamp":"2026-01-02T03:04:05.000006Z"}
{"stage":"ResponseComplete","verb":"create","user":{"username":"alice"},"userAgent":"kubectl/v1","objectRef":{"resource":"pods","subresource":"binding"},"responseStatus":{"code":201}}
{"stage":"ResponseComplete","verb":"get","user":{"username":"alice"},"userAgent":"kubectl/v1","objectRef":{"resource":"pods"},"responseStatus":{"code":200}}
{"stage":"ResponseStarted","verb":"create","user":{"username":"alice"},"userAgent":"kubectl/v1","objectRef":{"resource":"pods"}}
{"stage":"ResponseComplete","verb":"patch","user":{"username":"bob"},"userAgent":"stratos/v1","objectRef":{"resource":"nodes","subresource":"status","name":"n"},"responseStatus":{"code":409}}
{"stage":"ResponseComplete","verb":"delete","user":{"userna`

func TestCountWrites(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	if err := os.WriteFile(path, []byte(auditSample), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		filters []AuditFilter
		want    int
	}{
		"all writes, not the read, not the early stage, not the torn line": {nil, 3},
		"of one user":                           {[]AuditFilter{ByUser("alice")}, 2},
		"of one user agent":                     {[]AuditFilter{ByUserAgent("stratos/")}, 1},
		"of a resource without its subresource": {[]AuditFilter{ByResource("pods", "")}, 1},
		"of a subresource":                      {[]AuditFilter{ByResource("nodes", "status")}, 1},
		"accepted only":                         {[]AuditFilter{Accepted()}, 2},
		"of one verb":                           {[]AuditFilter{ByVerb("patch", "update")}, 1},
		"every filter has to agree":             {[]AuditFilter{ByUser("bob"), ByUserAgent("kubectl")}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := CountWrites(path, test.filters...)
			if err != nil || got != test.want {
				t.Errorf("CountWrites = %d, %v, want %d", got, err, test.want)
			}
		})
	}
}

func TestReadAuditLogKeepsTheFields(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	if err := os.WriteFile(path, []byte(auditSample), 0o600); err != nil {
		t.Fatal(err)
	}
	events, err := ReadAuditLog(path, ByResource("pods", ""), ByVerb("create"))
	if err != nil || len(events) != 1 {
		t.Fatalf("events = %v, %v, want one", events, err)
	}
	e := events[0]
	if e.Namespace != "a" || e.Code != 201 || e.Groups[0] != "g" || e.Received.Nanosecond() != 6000 {
		t.Errorf("event = %+v", e)
	}
}

func TestReadAuditLogRefusesOtherFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	if err := os.WriteFile(path, []byte("I1120 not an audit log\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadAuditLog(path); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("ReadAuditLog: %v, want an error that names the file", err)
	}
}
