package helm

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/mail"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
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
	kind, parameters, err := mime.ParseMediaType(message.Header.Get("Content-Type"))
	if err != nil || kind != "multipart/mixed" {
		return fmt.Errorf("user data: content type %q: %w", kind, err)
	}
	parts, kinds := multipart.NewReader(message.Body, parameters["boundary"]), []string{}
	for {
		part, err := parts.NextPart()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("user data: %w", err)
		}
		kind, err := checkPart(part)
		if err != nil {
			return fmt.Errorf("user data: %w", err)
		}
		kinds = append(kinds, kind)
	}
	if !slices.Contains(kinds, "application/node.eks.aws") {
		return fmt.Errorf("user data: no part for nodeadm in %q", kinds)
	}
	return nil
}

func checkPart(part *multipart.Part) (string, error) {
	kind, _, err := mime.ParseMediaType(part.Header.Get("Content-Type"))
	if err != nil {
		return "", err
	}
	body, err := io.ReadAll(part)
	if err != nil {
		return "", err
	}
	switch kind {
	case "text/x-shellscript":
		return kind, checkScript(string(body))
	case "application/node.eks.aws":
		return kind, checkNodeConfig(body)
	}
	return "", fmt.Errorf("the test does not know parts of type %q", kind)
}

func checkNodeConfig(body []byte) error {
	var config nodeConfig
	if err := strictly(string(body), &config); err != nil {
		return err
	}
	cluster := config.Spec.Cluster
	if config.APIVersion != "node.eks.aws/v1alpha1" || config.Kind != "NodeConfig" ||
		cluster.Name == "" || !strings.HasPrefix(cluster.APIServerEndpoint, "https://") ||
		cluster.CertificateAuthority == "" || cluster.CIDR == "" {
		return fmt.Errorf("nodeadm needs all of %+v", config)
	}
	return nil
}

// checkScript parses a script and the scripts that it writes, and looks for variables that are
// never set.
func checkScript(text string) error {
	if !strings.HasPrefix(text, "#!/bin/bash\n") {
		return fmt.Errorf("a script begins with #!/bin/bash, not with %.20q", text)
	}
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(text), "")
	if err != nil {
		return err
	}
	set := map[string]bool{"1": true}
	var used []string
	var errs []error
	syntax.Walk(file, func(node syntax.Node) bool {
		switch n := node.(type) {
		case *syntax.Assign:
			set[n.Name.Value] = true
		case *syntax.ParamExp:
			used = append(used, n.Param.Value)
		case *syntax.Redirect:
			if n.Hdoc != nil && strings.HasPrefix(n.Hdoc.Lit(), "#!") {
				errs = append(errs, checkScript(n.Hdoc.Lit()))
			}
		}
		return true
	})
	for _, name := range used {
		if !set[name] {
			errs = append(errs, fmt.Errorf("nobody sets $%s", name))
		}
	}
	return errors.Join(errs...)
}
