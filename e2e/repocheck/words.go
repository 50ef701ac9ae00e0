package repocheck

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Word is a word or phrase that pages and comments do not use.
type Word struct {
	// Not is the phrase in lower case, Say what to write instead.
	Not, Say string
	pattern  *regexp.Regexp
}

// ReadWords reads a list of words: lines of the form "phrase => what to say", and comments (#).
func ReadWords(file string) ([]Word, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var words []Word
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		not, say, ok := strings.Cut(line, " => ")
		if !ok {
			return nil, fmt.Errorf("%s: %q is not of the form: phrase => what to say", file, line)
		}
		// A phrase may be broken over two lines of a comment or a page.
		spaced := strings.Join(strings.Fields(regexp.QuoteMeta(not)), `\s+(?://\s*)?`)
		pattern, err := regexp.Compile(`(?i)\b` + spaced + `\b`)
		if err != nil {
			return nil, fmt.Errorf("%s: %q: %w", file, not, err)
		}
		words = append(words, Word{Not: not, Say: say, pattern: pattern})
	}
	return words, nil
}

// Misused names the places below root, as "file:line: phrase", at which a page or a comment uses
// one of the words. Code, which stands in backticks, and generated files are left out.
func Misused(root string, words []Word) ([]string, error) {
	var found []string
	err := eachText(root, func(file, text string) (err error) {
		prose := pageProse(text)
		if filepath.Ext(file) == ".go" {
			prose, err = commentProse(text)
		}
		prose = codeSpan.ReplaceAllStringFunc(prose, blankOut)
		for _, w := range words {
			for _, at := range w.pattern.FindAllStringIndex(prose, -1) {
				line := strings.Count(prose[:at[0]], "\n") + 1
				found = append(found, fmt.Sprintf("%s:%d: %q, say: %s", file, line, w.Not, w.Say))
			}
		}
		return err
	})
	return found, err
}

// codeSpan is text within backticks, which may be broken over lines but not over paragraphs.
var codeSpan = regexp.MustCompile("`(?:[^`\n]|\n[^`\n])*`")

// blankOut replaces all but the line breaks by what is part of no phrase.
func blankOut(code string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' {
			return r
		}
		return '`'
	}, code)
}

// pageProse is the page with its blocks of code blanked out, line for line.
func pageProse(text string) string {
	var out strings.Builder
	code := false
	for line := range strings.Lines(text) {
		fence := strings.HasPrefix(strings.TrimSpace(line), "```")
		if fence {
			code = !code
		}
		if code || fence {
			line = "\n"
		}
		out.WriteString(line)
	}
	return out.String()
}

// commentProse is the file with all but its comments blanked out, line for line. The name with
// which the comment of a declaration begins is blanked out too.
func commentProse(text string) (string, error) {
	set := token.NewFileSet()
	tree, err := parser.ParseFile(set, "", text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return "", err
	}
	names := declaredNames(tree)
	lines := make([]string, strings.Count(text, "\n")+1)
	for _, group := range tree.Comments {
		for _, comment := range group.List {
			comment.Text = withoutName(comment.Text, names[comment])
			first := set.Position(comment.Pos()).Line - 1
			for i, line := range strings.Split(comment.Text, "\n") {
				lines[first+i] += line
			}
		}
	}
	return strings.Join(lines, "\n"), nil
}

// declaredNames maps the first lines of the comments of declarations to the declared names.
func declaredNames(tree *ast.File) map[*ast.Comment][]*ast.Ident {
	names := map[*ast.Comment][]*ast.Ident{}
	add := func(doc *ast.CommentGroup, declared ...*ast.Ident) {
		if doc != nil {
			names[doc.List[0]] = append(names[doc.List[0]], declared...)
		}
	}
	add(tree.Doc, tree.Name)
	ast.Inspect(tree, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			add(n.Doc, n.Name)
		case *ast.Field:
			add(n.Doc, n.Names...)
		case *ast.GenDecl:
			for _, spec := range n.Specs {
				add(n.Doc, specNames(spec)...)
			}
		case *ast.TypeSpec:
			add(n.Doc, n.Name)
		case *ast.ValueSpec:
			add(n.Doc, n.Names...)
		}
		return true
	})
	return names
}

func specNames(spec ast.Spec) []*ast.Ident {
	switch spec := spec.(type) {
	case *ast.TypeSpec:
		return []*ast.Ident{spec.Name}
	case *ast.ValueSpec:
		return spec.Names
	}
	return nil
}

// withoutName blanks out the name with which the comment begins, if it is one of those.
func withoutName(comment string, names []*ast.Ident) string {
	for _, name := range names {
		after, ok := strings.CutPrefix(strings.TrimPrefix(comment, "// Package "), name.Name)
		if !ok {
			after, ok = strings.CutPrefix(comment, "// "+name.Name)
		}
		if next, _ := utf8.DecodeRuneInString(after); ok && !unicode.IsLetter(next) && !unicode.IsDigit(next) {
			return "// " + strings.Repeat("_", len(name.Name)) + after
		}
	}
	return comment
}
