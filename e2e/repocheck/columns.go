package repocheck

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// ProseColumns is how wide a line of a page or of a comment may be, a tab counted as one column.
// The linter lll holds code to 120.
const ProseColumns = 100

// WideLines names the lines below root that are too wide: of pages all but code, tables and what
// has no place to break; of Go files the comments that stand alone, directives excepted.
func WideLines(root string) ([]string, error) {
	var wide []string
	err := eachText(root, func(file, text string) (err error) {
		lines := widePage
		if filepath.Ext(file) == ".go" {
			lines = wideComments
		}
		numbers, err := lines(text)
		for _, number := range numbers {
			wide = append(wide, fmt.Sprintf("%s:%d", file, number))
		}
		return err
	})
	return wide, err
}

// eachFile calls visit for each file below root with its path from there. Folders of build output,
// hidden ones and testdata are left out.
func eachFile(root string, visit func(file string) error) error {
	return filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if file != root && leftOut(entry.Name()) {
				return filepath.SkipDir
			}
			return nil
		}
		below, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		return visit(filepath.ToSlash(below))
	})
}

func leftOut(folder string) bool {
	return strings.HasPrefix(folder, ".") || slices.Contains([]string{"bin", "dist", "testdata", "node_modules"}, folder)
}

// eachText calls visit for each page and each Go file below root that is not generated, with its
// path below root.
func eachText(root string, visit func(file, text string) error) error {
	return eachFile(root, func(file string) error {
		text, err := read(filepath.Join(root, file))
		if err != nil || text == "" {
			return err
		}
		if err := visit(file, text); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		return nil
	})
}

// read returns the text of a page or of Go code, "" for any other file and for generated ones.
func read(file string) (string, error) {
	if ext := filepath.Ext(file); ext != ".md" && ext != ".go" {
		return "", nil
	}
	text, err := os.ReadFile(file)
	if err != nil || generatedFile.Match(text) {
		return "", err
	}
	return string(text), nil
}

var (
	generatedFile = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)
	// whole are the parts of a line that no break may tear apart.
	whole = regexp.MustCompile("`[^`]*`|\\[[^]]*\\](\\([^)]*\\))?")
	// prefix is what stands before the first word of a line.
	prefix = regexp.MustCompile(`^\s*(//\s*)?([-*]\s+|\d+[.)]\s+)?`)
	// directive is a comment that is read by a tool.
	directive = regexp.MustCompile(`^\s*(//go:|//nolint|//\s*\+)`)
)

// tooWide reports whether a line is too wide and could be broken at a space.
func tooWide(line string) bool {
	if utf8.RuneCountInString(line) <= ProseColumns {
		return false
	}
	line = whole.ReplaceAllStringFunc(line, func(part string) string {
		return strings.Repeat("x",
			utf8.RuneCountInString(part))
	})
	runes := []rune(line[len(prefix.FindString(line)):])
	return strings.ContainsRune(string(runes[:min(len(runes), ProseColumns)]), ' ')
}

func widePage(text string) ([]int, error) {
	var wide []int
	number, code := 0, false
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimRight(line, "\r\n")
		start := strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(start, "```"):
			code = !code
		case code, strings.HasPrefix(line, "    ") && !prefixed(start), strings.HasPrefix(start, "|"),
			strings.HasPrefix(start, "<!--"):
		case tooWide(line):
			wide = append(wide, number)
		}
	}
	return wide, nil
}

// prefixed reports whether the line begins an item of a list, which may be indented like code.
func prefixed(line string) bool { return prefix.FindString(line) != "" }

func wideComments(text string) ([]int, error) {
	set := token.NewFileSet()
	tree, err := parser.ParseFile(set, "", text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	lines := strings.Split(text, "\n")
	var wide []int
	for _, group := range tree.Comments {
		for _, comment := range group.List {
			wide = append(wide, wideIn(lines, set, comment)...)
		}
	}
	return wide, nil
}

func wideIn(lines []string, set *token.FileSet, comment *ast.Comment) []int {
	var wide []int
	first, last := set.Position(comment.Pos()).Line, set.Position(comment.End()).Line
	for number := first; number <= last; number++ {
		line := lines[number-1]
		alone := number > first || strings.TrimSpace(line[:set.Position(comment.Pos()).Column-1]) == ""
		if alone && !directive.MatchString(line) && tooWide(line) {
			wide = append(wide, number)
		}
	}
	return wide
}
