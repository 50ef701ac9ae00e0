package assert

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/stratos-sh/stratos/e2e/framework"
)

// shared is the rig of SharedRig.
var shared sharedRig //nolint:gochecknoglobals // it lives longer than the test that asks for it first

// sharedRig starts when a test asks for it and ends with the process.
type sharedRig struct {
	// mu guards what follows, and is held while the rig starts.
	mu      sync.Mutex
	options *framework.Options
	rig     *framework.Rig
	err     error
	// logs is the folder of its logs, "" where they are not to stay.
	logs string
	// users are the names of the tests that have asked for it.
	users map[string]bool
}

// MainWithRig runs the tests, which may ask for SharedRig. A TestMain exits with what it returns.
func MainWithRig(m *testing.M, o framework.Options) int {
	shared.options = &o
	code := m.Run()
	if err := shared.end(code != 0); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// SharedRig is one rig for all tests of the package that ask for it: a control plane and its start
// cost more than a short test. It needs MainWithRig. Such a test has names of its own for pools and
// pods, and changes nothing that is not its own: where faults of the cloud are to strike only its
// machines, they name an instance type that no other test uses.
func SharedRig(t *testing.T) *framework.Rig {
	t.Helper()
	r, err := shared.use(t.Name())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() && r.Stratos != nil {
			LogTail(t, r.Stratos)
		}
	})
	return r
}

// use returns the rig. A test that asks again runs once more (-count), by when all have ended: it
// gets a new rig, because its objects are in the old one.
func (s *sharedRig) use(name string) (*framework.Rig, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.options == nil {
		return nil, errors.New("SharedRig needs a TestMain with MainWithRig")
	}
	if s.users[name] {
		if err := s.close(); err != nil {
			return nil, err
		}
	}
	if s.users == nil {
		s.start()
	}
	s.users[name] = true
	return s.rig, s.err
}

func (s *sharedRig) start() {
	o := *s.options
	setDefaults(&o)
	s.users = map[string]bool{}
	if s.logs, s.err = logFolder("shared"); s.err != nil {
		return
	}
	o.ControlPlane.LogDir = s.logs
	s.rig, s.err = framework.New(context.Background(), o)
}

// close ends the rig, if there is one.
func (s *sharedRig) close() error {
	var err error
	if s.rig != nil {
		err = s.rig.Close()
	}
	s.rig, s.users = nil, nil
	return err
}

// end is close for the end of the process. The logs stay if a test failed.
func (s *sharedRig) end(failed bool) error {
	err := s.close()
	if s.logs == "" {
		return err
	}
	if failed {
		fmt.Fprintln(os.Stderr, "the logs of the shared rig are in", s.logs)
		return err
	}
	return errors.Join(err, os.RemoveAll(s.logs))
}
