package suite

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/mail"
	"os/exec"
	"regexp"
	"strings"
)

// checkUserData reads user data as cloud-init and nodeadm do: a script, or MIME parts of scripts
// and nodeadm's configuration.
func checkUserData(data string) error {
	if strings.HasPrefix(data, "#!") {
		return checkScript(data)
	}
	message, err := mail.ReadMessage(strings.NewReader(data))
	if err != nil {
		return fmt.Errorf("user data: neither a script nor MIME: %w", err)
	}
	_, parameters, err := mime.ParseMediaType(message.Header.Get("Content-Type"))
	if err != nil {
		return fmt.Errorf("user data: %w", err)
	}
	parts, joins := multipart.NewReader(message.Body, parameters["boundary"]), false
	var errs []error
	for {
		part, err := parts.NextPart()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("user data: %w", err)
		}
		body, err := io.ReadAll(part)
		if err != nil {
			return fmt.Errorf("user data: %w", err)
		}
		switch kind, _, _ := strings.Cut(part.Header.Get("Content-Type"), ";"); kind {
		case "text/x-shellscript":
			errs = append(errs, checkScript(string(body)))
		case "application/node.eks.aws":
			joins = true
			errs = append(errs, checkFields(string(body)))
		default:
			errs = append(errs, fmt.Errorf("user data: unknown part of type %q", kind))
		}
	}
	if !joins {
		errs = append(errs, errors.New("user data: no part for nodeadm"))
	}
	return errors.Join(errs...)
}

var (
	assignment = regexp.MustCompile(`(?m)(?:^|[\s;])(\w+)=`)
	expansion  = regexp.MustCompile(`\$\{?([A-Za-z_]\w*)`)
)

// checkScript parses a script and those that it writes, and looks for variables that are never set.
func checkScript(text string) error {
	const begin = "#!/bin/bash\n"
	if !strings.HasPrefix(text, begin) {
		return fmt.Errorf("a script begins with #!/bin/bash, not with %.20q", text)
	}
	var errs []error
	for _, script := range append(strings.Split(text, begin)[2:], text) {
		parse := exec.Command("bash", "-n")
		parse.Stdin = strings.NewReader(script)
		if out, err := parse.CombinedOutput(); err != nil || len(out) > 0 {
			errs = append(errs, fmt.Errorf("bash -n: %w: %s", err, out))
		}
	}
	set := map[string]bool{}
	for _, name := range assignment.FindAllStringSubmatch(text, -1) {
		set[name[1]] = true
	}
	for _, name := range expansion.FindAllStringSubmatch(text, -1) {
		if !set[name[1]] {
			errs = append(errs, fmt.Errorf("nothing sets $%s", name[1]))
		}
	}
	return errors.Join(errs...)
}
