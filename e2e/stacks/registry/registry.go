// Package registry serves the distribution project's OCI registry over TLS, in memory and with a
// password, for tests.
package registry

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/distribution/distribution/v3/configuration"
	_ "github.com/distribution/distribution/v3/registry/auth/htpasswd" // makes itself known by being imported
	"github.com/distribution/distribution/v3/registry/handlers"
	_ "github.com/distribution/distribution/v3/registry/storage/driver/inmemory" // makes itself known by being imported
	"golang.org/x/crypto/bcrypt"
)

// The only user.
const (
	Username = "author"
	Password = "secret"
)

// TagsPerPage is how many tags the registry puts into an answer.
const TagsPerPage = 5

// Server is the registry. Pages counts the pages of tags after the first that it gives.
type Server struct {
	*httptest.Server
	Host  string
	Pages atomic.Int64
}

// Main runs the tests of a package with the registry in to. It begins before them, because Go reads
// SSL_CERT_FILE once; programs that the tests start inherit it.
func Main(m *testing.M, to **Server) int {
	folder, err := os.MkdirTemp("", "stacks")
	if err == nil {
		*to, err = serve(folder)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	(*to).Close()
	if err := os.RemoveAll(folder); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	return code
}

func serve(folder string) (*Server, error) {
	hash, err := bcrypt.GenerateFromPassword([]byte(Password), bcrypt.MinCost)
	if err != nil {
		return nil, err
	}
	users := filepath.Join(folder, "htpasswd")
	if err := os.WriteFile(users, fmt.Appendf(nil, "%s:%s\n", Username, hash), 0o600); err != nil {
		return nil, err
	}
	config := &configuration.Configuration{
		Storage: configuration.Storage{"inmemory": configuration.Parameters{}},
		Auth:    configuration.Auth{"htpasswd": configuration.Parameters{"realm": "stacks", "path": users}},
	}
	config.Log.Level = "error"
	config.Log.AccessLog.Disabled = true
	config.Tags.MaxTags = TagsPerPage
	s := &Server{}
	app := handlers.NewApp(context.Background(), config)
	s.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/tags/list") && r.URL.Query().Get("last") != "" {
			s.Pages.Add(1)
		}
		app.ServeHTTP(w, r)
	}))
	s.Host = strings.TrimPrefix(s.URL, "https://")
	authority := filepath.Join(folder, "ca.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	return s, errors.Join(os.WriteFile(authority, text, 0o600), os.Setenv("SSL_CERT_FILE", authority))
}
