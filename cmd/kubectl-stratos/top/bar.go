package top

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// kind is a part of a pool's bar: a state, or several.
type kind struct {
	sign  string
	word  string
	color string
	count func(Pool) int32
}

// The colors are those that terminals let users choose.
const (
	green  = "\x1b[32m"
	yellow = "\x1b[33m"
	blue   = "\x1b[34m"
	purple = "\x1b[35m"
	grey   = "\x1b[90m"
	reset  = "\x1b[m"
)

// kinds are the parts of a bar from left to right. Their signs differ without colors too.
func kinds() []kind {
	return []kind{
		{"█", "running", green, func(p Pool) int32 { return p.Running }},
		{"▓", "starting", yellow, func(p Pool) int32 { return p.Starting }},
		{"▒", "standby", blue, func(p Pool) int32 { return p.Standby }},
		{"░", "warmup", purple, func(p Pool) int32 { return p.Warmup }},
		{"▪", "other", grey, func(p Pool) int32 { return p.Other }},
	}
}

// legend says what the signs mean, with the nodes of all pools.
func legend(pools []Pool) string {
	var parts []string
	for _, k := range kinds() {
		n := int32(0)
		for _, p := range pools {
			n += k.count(p)
		}
		parts = append(parts, fmt.Sprintf("%s %d %s", k.sign, n, k.word))
	}
	return strings.Join(parts, "  ")
}

// bar draws the pool's nodes by state, of the width for as many as its size. A state with nodes has
// a sign at least, as far as there is room.
func bar(p Pool, width int) string {
	if width <= 0 {
		return ""
	}
	total := max(p.Size, p.total())
	var out strings.Builder
	counted, drawn := int32(0), 0
	for _, k := range kinds() {
		n := k.count(p)
		if n == 0 {
			continue
		}
		counted += n
		end := min(max(int(counted)*width/int(total), drawn+1), width)
		out.WriteString(k.color + strings.Repeat(k.sign, end-drawn) + reset)
		drawn = end
	}
	return out.String() + strings.Repeat("·", width-drawn)
}

func (p Pool) total() int32 { return p.Running + p.Starting + p.Standby + p.Warmup + p.Other }

// progress draws how far a start has come of the usual time; one that takes longer is marked.
func progress(elapsed, usual time.Duration, width int) string {
	if usual <= 0 || width <= 0 {
		return ""
	}
	done := int(int64(width) * int64(elapsed) / int64(usual))
	if done > width {
		return yellow + strings.Repeat("█", width-1) + "!" + reset
	}
	done = max(0, done)
	return green + strings.Repeat("█", done) + reset + strings.Repeat("·", width-done)
}

func bold(text string) string { return "\x1b[1m" + text + reset }

// next is the index of the next order.
func next(sort int) int { return (sort + 1) % len(orders()) }

// backspace removes the last character.
func backspace(text string) string {
	runes := []rune(text)
	return string(slices.Delete(runes, max(0, len(runes)-1), len(runes)))
}
