package subcommand

import (
	"bytes"
	"errors"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"

	"github.com/stratos-sh/stratos/cmd/stratos/options"
)

// TestCommandsOfThePages: what README.md and docs/images.md say to type is understood.
func TestCommandsOfThePages(t *testing.T) {
	commands := regexp.MustCompile(`(?m)^go run \./cmd/stratos/main\.go ((?:.*\\\n)*.*)$`).FindAllStringSubmatch(
		page(t, "README.md"), -1)
	if len(commands) != 2 {
		t.Errorf("README.md has %d commands", len(commands))
	}
	for _, command := range commands {
		words := strings.Fields(strings.ReplaceAll(command[1], "\\\n", " "))
		if n := slices.Index(words, ">"); n >= 0 {
			words = words[:n]
		}
		if err := understand(words); err != nil {
			t.Errorf("%q: %v", words, err)
		}
	}
	if understand([]string{"--no-such-flag"}) == nil || understand([]string{"scheduler-config", "--wiring=none"}) == nil {
		t.Error("anything is understood")
	}

	var values struct {
		ExtraArgs []string `json:"extraArgs"`
	}
	block := regexp.MustCompile("(?s)\n```yaml\n(.*?\n)```\n").FindStringSubmatch(page(t, "docs/images.md"))
	if err := yaml.UnmarshalStrict([]byte(block[1]), &values); err != nil || len(values.ExtraArgs) == 0 {
		t.Fatalf("docs/images.md: %v in\n%s", err, block[1])
	}
	if err := understand(append(values.ExtraArgs, "--cluster-name=a", "--cloud-provider=fake")); err != nil {
		t.Errorf("docs/images.md: %v", err)
	}
}

func page(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile("../../../" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// understand runs a subcommand, or validates the flags of the main command.
func understand(words []string) error {
	for _, command := range All() {
		if command.Name() == words[0] {
			var out bytes.Buffer
			command.SetOut(&out)
			command.SetErr(&out)
			command.SetArgs(words[1:])
			err := command.Execute()
			if err == nil && out.Len() == 0 {
				err = errors.New("it prints nothing")
			}
			return err
		}
	}
	o := &options.Options{}
	flags := pflag.NewFlagSet("stratos", pflag.ContinueOnError)
	flags.SetOutput(&bytes.Buffer{})
	o.AddFlags(flags)
	if err := flags.Parse(words); err != nil {
		return err
	}
	o.Complete(flags)
	return o.Validate()
}
