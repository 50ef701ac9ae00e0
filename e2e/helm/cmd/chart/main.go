// Command chart writes the generated files of the chart (generate), or renders it (render <set>) by
// Helm 3 or 4.
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/stratos-sh/stratos/e2e/helm"
)

func main() {
	root := flag.String("root", "../..", "root of the repository")
	major := flag.Int("helm", int(helm.Helm4), "major version of Helm: 3 or 4")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: chart [-root folder] [-helm 3|4] generate | render <set>")
		flag.PrintDefaults()
	}
	flag.Parse()
	if err := run(helm.Tree(*root), helm.Major(*major), flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "chart:", err)
		os.Exit(1)
	}
}

func run(tree helm.Tree, major helm.Major, args []string) error {
	switch {
	case len(args) == 1 && args[0] == "generate":
		return tree.Generate()
	case len(args) == 2 && args[0] == "render":
		return render(tree, major, args[1])
	}
	flag.Usage()
	return fmt.Errorf("unknown command %q", args)
}

func render(tree helm.Tree, major helm.Major, name string) error {
	sets, err := tree.Sets()
	if err != nil {
		return err
	}
	for _, set := range sets {
		if set.Name != name {
			continue
		}
		output, err := major.Render(tree.ChartDir(), set)
		if err != nil {
			return err
		}
		_, err = os.Stdout.WriteString(output.Manifest)
		return err
	}
	return fmt.Errorf("no set %q in charts/testdata/values", name)
}
