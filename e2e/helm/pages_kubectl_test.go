package helm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/interp"
)

// runKubectl runs the real one. What would wait for kubelets and controllers that are not here is
// asked without waiting; what would take away what later blocks need is asked with
// --dry-run=server.
func (r *reader) runKubectl(ctx context.Context, shell interp.HandlerContext, args []string) error {
	at := verbAt(args)
	if at < 0 {
		return errors.New("no verb")
	}
	switch verb := args[at]; verb {
	case "apply":
		return r.apply(ctx, shell, args)
	case "create":
		return r.create(ctx, shell, args, args[at+1:])
	case "get", "describe":
		return r.real(ctx, shell, slices.DeleteFunc(slices.Clone(args), func(a string) bool { return a == "--watch" })...)
	case "label", "annotate":
		return r.real(ctx, shell, args...)
	case "delete", "patch":
		return r.real(ctx, shell, append(slices.Clone(args), "--dry-run=server")...)
	default:
		return fmt.Errorf("the test does not know how to check kubectl %s", verb)
	}
}

// verbAt finds the first word that is no flag of kubectl itself.
func verbAt(args []string) int {
	for i := 0; i < len(args); i++ {
		switch {
		case args[i] == "-n" || args[i] == "--namespace":
			i++
		case !strings.HasPrefix(args[i], "-"):
			return i
		}
	}
	return -1
}

func (r *reader) real(ctx context.Context, shell interp.HandlerContext, args ...string) error {
	return r.exec(ctx, shell, shell.Stdin, shell.Stdout, r.plane.KubectlPath(), append(args, "--warnings-as-errors")...)
}

// apply checks the documents, sends them with --dry-run=server and then for real, because later
// blocks look at them.
func (r *reader) apply(ctx context.Context, shell interp.HandlerContext, args []string) error {
	at := slices.Index(args, "-f")
	if at < 0 || at+1 == len(args) {
		return errors.New("want -f and a file")
	}
	from := args[at+1]
	if strings.Contains(from, "://") { // not here without a network
		address, err := url.Parse(from)
		if err == nil && (address.Scheme != "https" || address.Host == "" ||
			!slices.Contains([]string{".yaml", ".yml"}, filepath.Ext(address.Path))) {
			err = errors.New("want the https address of a file in YAML")
		}
		return err
	}
	text, err := r.content(shell, from)
	if err != nil {
		return err
	}
	if err := r.document(ctx, string(text)); err != nil {
		return err
	}
	args = slices.Replace(slices.Clone(args), at+1, at+2, "-")
	args = append(args, "--validate=strict", "--warnings-as-errors")
	return r.exec(ctx, shell, bytes.NewReader(text), shell.Stdout, r.plane.KubectlPath(), args...)
}

func (r *reader) content(shell interp.HandlerContext, from string) ([]byte, error) {
	if from == "-" {
		return io.ReadAll(shell.Stdin)
	}
	if !filepath.IsAbs(from) {
		return os.ReadFile(filepath.Join(shell.Dir, from))
	}
	return os.ReadFile(r.at(from))
}

// create makes namespaces for real, for the objects in them, and remembers what is in a Secret.
func (r *reader) create(ctx context.Context, shell interp.HandlerContext, args, what []string) error {
	switch {
	case len(what) == 2 && what[0] == "namespace":
		return r.real(ctx, shell, args...)
	case len(what) > 2 && what[0] == "secret" && what[1] == "generic":
		var out bytes.Buffer
		args = append(slices.Clone(args), "--dry-run=server", "-o", "json")
		if err := r.exec(ctx, shell, shell.Stdin, &out, r.plane.KubectlPath(), args...); err != nil {
			return err
		}
		var secret struct{ Data map[string]string }
		if err := json.Unmarshal(out.Bytes(), &secret); err != nil {
			return err
		}
		r.secrets[what[2]] = slices.Sorted(maps.Keys(secret.Data))
		return nil
	}
	return fmt.Errorf("the test does not know how to check kubectl create %s", strings.Join(what, " "))
}
