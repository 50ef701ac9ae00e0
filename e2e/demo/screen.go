package main

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/term"
)

// screen shows what happens: in a terminal a table that is drawn over itself, elsewhere one line
// per change.
type screen struct {
	file *os.File
	live bool
	// drawn is how many lines of the last table stand above the cursor; last is the text of the last
	// plain line.
	drawn int
	last  string
}

func newScreen(file *os.File) *screen {
	return &screen{file: file, live: term.IsTerminal(int(file.Fd())) && os.Getenv("TERM") != "dumb"}
}

// Write takes what a build reports, in whole lines. It never fails: a lost line of progress changes
// nothing.
func (s *screen) Write(text []byte) (int, error) {
	fmt.Fprint(s.file, string(text))
	return len(text), nil
}

func (s *screen) line(format string, args ...any) { fmt.Fprintf(s.file, format+"\n", args...) }

func (s *screen) lines(lines []string) {
	for _, l := range lines {
		fmt.Fprintln(s.file, l)
	}
}

// show draws the table, or writes the line if it says anything new.
func (s *screen) show(table []string, line plain) {
	if !s.live {
		if line.text != s.last {
			s.last = line.text
			fmt.Fprintf(s.file, "%7s  %s\n", seconds(line.at), line.text)
		}
		return
	}
	width, height, err := term.GetSize(int(s.file.Fd()))
	if err != nil || width == 0 || height == 0 { // pseudo-terminals without a size say 0
		width, height = columns, len(table)+1
	}
	fmt.Fprint(s.file, redraw(table, s.drawn, width, height))
	s.drawn = min(len(table), height-1)
}

// end leaves the last table where it is; what comes next stands below it.
func (s *screen) end() { s.drawn, s.last = 0, "" }

// redraw is the text that draws the table over the one of that many lines before. Lines are cut at
// the terminal's edge, because one that wraps, or scrolls away, would be counted wrong the next
// time.
func redraw(table []string, drawn, width, height int) string {
	var b strings.Builder
	if drawn > 0 {
		fmt.Fprintf(&b, "\x1b[%dA\r", drawn)
	}
	for _, l := range table[:max(0, min(len(table), height-1))] {
		b.WriteString(l[:max(0, min(len(l), width-1))] + "\x1b[K\n")
	}
	b.WriteString("\x1b[J")
	return b.String()
}
