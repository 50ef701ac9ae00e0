package helm

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// page is a document with commands that a reader types one after the other.
type page struct {
	file string
	// section is the heading that the reader follows; empty is the whole page.
	section string
	// least is how many fenced blocks it has at least, so that a change of its form does not leave the
	// test without any.
	least int
}

func pages() []page {
	return []page{
		{"docs/install.md", "", 30},
		{"docs/scheduler.md", "", 12},
		{"docs/certificates.md", "", 2},
		{"charts/stratos/README.md", "", 1},
		{"README.md", "## Install", 1},
	}
}

// block is a fenced block of a page.
type block struct {
	line           int
	language, text string
}

// blocks returns the page's fenced blocks, without the indentation that a list gives them.
func (p page) blocks(text string) ([]block, error) {
	if p.section != "" {
		_, after, found := strings.Cut("\n"+text, "\n"+p.section+"\n")
		if !found {
			return nil, fmt.Errorf("%s has no section %q", p.file, p.section)
		}
		text, _, _ = strings.Cut(after, "\n## ")
	}
	var (
		found []block
		open  *block
		ident string
	)
	for number, line := range strings.Split(text, "\n") {
		before, language, fence := strings.Cut(line, "```")
		switch {
		case fence && open == nil:
			open, ident = &block{line: number + 1, language: strings.TrimSpace(language)}, before
		case fence:
			found, open = append(found, *open), nil
		case open != nil:
			open.text += strings.TrimPrefix(line, ident) + "\n"
		}
	}
	if open != nil {
		return nil, fmt.Errorf("%s: the block of line %d does not end", p.file, open.line)
	}
	if len(found) < p.least {
		return nil, fmt.Errorf("%s has %d fenced blocks, want at least %d", p.file, len(found), p.least)
	}
	return found, nil
}

// TestEveryFencedCommand follows the pages as a reader would, each from its first block to its
// last: the shell's part is run by an interpreter, kubectl and Helm are the real ones against a
// real API server, and what cannot be here (AWS, kubeadm, kind) is checked by its arguments and
// files.
func TestEveryFencedCommand(t *testing.T) {
	site := newSite(t)
	for _, p := range pages() {
		t.Run(filepath.Base(filepath.Dir(p.file))+"/"+filepath.Base(p.file), func(t *testing.T) {
			text, err := os.ReadFile(tree.path(p.file))
			if err != nil {
				t.Fatal(err)
			}
			blocks, err := p.blocks(string(text))
			if err != nil {
				t.Fatal(err)
			}
			reader := site.reader(t)
			for _, b := range blocks {
				if err := reader.follow(t.Context(), b); err != nil {
					t.Errorf("%s, %s, line %d: %v\n%s", p.file, cmp.Or(p.section, "whole page"), b.line, err, b.text)
				}
			}
		})
	}
	t.Run("broken ones are refused", site.brokenOnesAreRefused)
}
