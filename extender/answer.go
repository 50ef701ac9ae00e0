package extender

import (
	"bytes"
	"encoding/json"
	"strconv"
	"sync"

	extenderv1 "k8s.io/kube-scheduler/extender/v1"
)

const (
	// maxPooledBytes and maxPooledNames keep one giant request from holding its memory for the life of
	// the process. 5000 names take about 250 KiB.
	maxPooledBytes = 1 << 20
	maxPooledNames = 16 << 10
)

// exchange is the memory of one request and its answer.
type exchange struct {
	body   bytes.Buffer
	names  Names
	answer []byte
}

// exchanges reuses the memory of requests. Nothing that outlives a request refers to it.
type exchanges struct{ pool sync.Pool }

func newExchanges() *exchanges {
	return &exchanges{pool: sync.Pool{New: func() any { return &exchange{} }}}
}

func (p *exchanges) get() *exchange { return p.pool.Get().(*exchange) }

func (p *exchanges) put(x *exchange) {
	if x.body.Cap() > maxPooledBytes || cap(x.answer) > maxPooledBytes || cap(x.names) > maxPooledNames {
		return
	}
	x.body.Reset()
	x.names, x.answer = x.names[:0], x.answer[:0]
	p.pool.Put(x)
}

// appendFilterAnswer writes extenderv1.ExtenderFilterResult. It always sends NodeNames, as an empty
// list where no node is left.
func appendFilterAnswer(to []byte, a args, answer FilterAnswer) ([]byte, error) {
	to = append(to, `{"Nodes":null,"NodeNames":[`...)
	if a.list != nil && len(answer.Nodes) == len(a.names) {
		to = append(to, a.list...) // all of them, in their order
	} else {
		for i, name := range answer.Nodes {
			if i > 0 {
				to = append(to, ',')
			}
			to = appendString(to, name)
		}
	}
	to = append(to, `],"FailedNodes":null,"FailedAndUnresolvableNodes":`...)
	to, err := appendReasons(to, answer.FailedUnresolvable)
	if err != nil {
		return nil, err
	}
	return append(to, `,"Error":""}`...), nil
}

func appendReasons(to []byte, reasons map[string]string) ([]byte, error) {
	if len(reasons) == 0 {
		return append(to, "null"...), nil
	}
	text, err := json.Marshal(reasons)
	return append(to, text...), err
}

func appendString[S ~string | ~[]byte](to []byte, s S) []byte {
	for i := range len(s) {
		if !plain(s[i]) {
			quoted, _ := json.Marshal(string(s)) // a string cannot fail
			return append(to, quoted...)
		}
	}
	return append(append(append(to, '"'), s...), '"')
}

// appendScores writes extenderv1.HostPriorityList. It leaves out what says nothing: kube-scheduler
// adds up scores, so by how much all of them exceed 0 does not matter, and a host without a score
// has 0. In most clusters that leaves none. A score out of range is brought to the nearest allowed
// one: kube-scheduler would add it as it is, and it would outweigh every plugin.
func appendScores(to []byte, names Names, scores []int64) []byte {
	least := extenderv1.MaxExtenderPriority
	for _, score := range scores {
		least = min(least, allowed(score))
	}
	to = append(to, '[')
	first := true
	for i, score := range scores {
		above := allowed(score) - least
		if above == 0 {
			continue
		}
		if !first {
			to = append(to, ',')
		}
		first = false
		to = appendString(append(to, `{"Host":`...), names[i])
		to = strconv.AppendInt(append(to, `,"Score":`...), above, 10)
		to = append(to, '}')
	}
	return append(to, ']')
}

func allowed(score int64) int64 {
	return min(max(score, extenderv1.MinExtenderPriority), extenderv1.MaxExtenderPriority)
}
