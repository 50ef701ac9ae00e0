package options

import (
	"testing"
	"testing/fstest"
)

func TestMemoryLimit(t *testing.T) {
	const second, first = "sys/fs/cgroup/memory.max", "sys/fs/cgroup/memory/memory.limit_in_bytes"
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	for name, c := range map[string]struct {
		files fstest.MapFS
		env   map[string]string
		want  int64
	}{
		"a container of 1 GiB":               {fstest.MapFS{second: file("1073741824\n")}, nil, 1073741824 / 10 * 9},
		"a container without a limit":        {fstest.MapFS{second: file("max\n")}, nil, 0},
		"no container":                       {fstest.MapFS{}, nil, 0},
		"cgroup version 1":                   {fstest.MapFS{first: file("536870912\n")}, nil, 536870912 / 10 * 9},
		"cgroup version 1 without a limit":   {fstest.MapFS{first: file("9223372036854771712\n")}, nil, 0},
		"nonsense":                           {fstest.MapFS{second: file("")}, nil, 0},
		"somebody has said it in GOMEMLIMIT": {fstest.MapFS{second: file("1073741824\n")}, map[string]string{"GOMEMLIMIT": "off"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			lookup := func(key string) (string, bool) { v, ok := c.env[key]; return v, ok }
			if got := MemoryLimit(c.files, lookup); got != c.want {
				t.Errorf("%d bytes, want %d", got, c.want)
			}
		})
	}
}
