package nemesis

import (
	"context"
	"fmt"
	"hash/maphash"
	"slices"
	"strconv"
	"strings"

	"github.com/anishathalye/porcupine"
)

// width is how many keys a tag has.
const width = 4

// keyOf returns a key of a tag. Keys sort by their number.
func keyOf(tag string, key int) string { return fmt.Sprintf("{%s}k%d", tag, key) }

// end is after all keys of a tag.
func endOf(tag string) string { return fmt.Sprintf("{%s}l", tag) }

// verb is what a command does to a key of a tag; a ranging command uses all keys.
type verb string

const (
	doGet     verb = "GET"
	doSet     verb = "SET"
	doSetMort verb = "SET PX" // SET with a time to live
	doSetNX   verb = "SET NX"
	doSetXX   verb = "SET XX"
	doDel     verb = "DEL"
	doCAS     verb = "CAS"
	doDelIf   verb = "DELEX"
	doAppend  verb = "APPEND"
	doIncr    verb = "INCR"
	doRange   verb = "RANGE"
	doRev     verb = "REVRANGE"
)

// command is one command. Its replies are answers.
type command struct {
	verb     verb
	key      int
	old, arg string
}

func (c command) writes() bool { return c.verb != doGet && c.verb != doRange && c.verb != doRev }

// args returns the request.
func (c command) args(tag string) []string {
	key := keyOf(tag, c.key)
	switch c.verb {
	case doGet, doDel, doIncr:
		return []string{string(c.verb), key}
	case doSet, doAppend:
		return []string{string(c.verb), key, c.arg}
	case doSetMort:
		return []string{"SET", key, c.arg, "PX", mortalMillis}
	case doSetNX:
		return []string{"SET", key, c.arg, "NX"}
	case doSetXX:
		return []string{"SET", key, c.arg, "XX"}
	case doCAS:
		return []string{"CAS", key, c.old, c.arg}
	case doDelIf:
		return []string{"DELEX", key, "IFEQ", c.old}
	}
	return []string{string(c.verb), keyOf(tag, 0), endOf(tag)}
}

func (c command) String() string {
	if c.verb == doRange || c.verb == doRev {
		return string(c.verb)
	}
	return strings.TrimSpace(fmt.Sprintf("%s %d %s %s", c.verb, c.key, c.old, c.arg))
}

// mortalMillis is the time to live of mortal keys. When it ends depends on the clocks of leaders, which jump in tests.
const mortalMillis = "400"

// input is an operation of the history: commands on one tag that happen at once.
type input struct {
	tag      string
	commands []command
}

// answer is the reply to a command, in one string so that it can be compared: "nil", ":1", "=text", or
// the pairs of a range.
type answer string

const absent answer = "nil"

func textAnswer(s string) answer { return answer("=" + s) }
func intAnswer(n int) answer     { return answer(":" + strconv.Itoa(n)) }

// output is what was seen of an operation.
type output struct {
	unknown bool // it may happen at any later time, or never
	answers []answer
}

// content is a tag's keys. An absent key is ""; a value begins with "=", or with "~" if it has a time to live.
type content [width]string

// step applies a command to a state. seen is what the client got, which decides whether a mortal key has
// expired; nil if it is unknown.
func (s content) step(c command, seen *answer) (content, answer) {
	old := s[c.key]
	if seen != nil && strings.HasPrefix(old, "~") && (c.verb == doGet && *seen == absent || c.verb == doDel && *seen == ":0") {
		old, s[c.key] = "", "" // it has expired, and must stay absent
	}
	switch c.verb {
	case doGet:
		return s, valueAnswer(old)
	case doSet:
		s[c.key] = "=" + c.arg
		return s, "=OK"
	case doSetMort:
		s[c.key] = "~" + c.arg
		return s, "=OK"
	case doSetNX:
		if old != "" {
			return s, absent
		}
		s[c.key] = "=" + c.arg
		return s, "=OK"
	case doSetXX:
		if old == "" {
			return s, absent
		}
		s[c.key] = "=" + c.arg
		return s, "=OK"
	case doDel:
		s[c.key] = ""
		return s, flagAnswer(old != "")
	case doCAS, doDelIf:
		return s.stepIfEqual(c, old)
	case doAppend:
		s[c.key] = "=" + strings.TrimPrefix(old, "=") + c.arg
		return s, intAnswer(len(s[c.key]) - 1)
	case doIncr:
		n, _ := strconv.Atoi(strings.TrimPrefix(old, "=")) // counters have numbers only
		s[c.key] = "=" + strconv.Itoa(n+1)
		return s, intAnswer(n + 1)
	}
	return s, s.scan(c.verb == doRev)
}

// stepIfEqual applies a command that compares the value.
func (s content) stepIfEqual(c command, old string) (content, answer) {
	switch {
	case old == "" && c.verb == doCAS:
		return s, absent
	case old == "" || old[1:] != c.old:
		return s, ":0"
	case c.verb == doCAS:
		s[c.key] = "=" + c.arg
	default:
		s[c.key] = ""
	}
	return s, ":1"
}

func valueAnswer(v string) answer {
	if v == "" {
		return absent
	}
	return textAnswer(v[1:])
}

func flagAnswer(b bool) answer {
	if b {
		return ":1"
	}
	return ":0"
}

func (s content) scan(reverse bool) answer {
	var pairs []string
	for key, v := range s {
		if v != "" {
			pairs = append(pairs, fmt.Sprintf("%d=%s", key, v[1:]))
		}
	}
	if reverse {
		slices.Reverse(pairs)
	}
	return answer(strings.Join(pairs, " "))
}

// next applies an operation; ok is whether its answers are possible.
func (s content) next(in input, out output) (ok bool, next content) {
	next = s
	for i, c := range in.commands {
		if out.unknown {
			next, _ = next.step(c, nil)
			continue
		}
		var got answer
		if next, got = next.step(c, &out.answers[i]); got != out.answers[i] {
			return false, s
		}
	}
	return true, next
}

var hashSeed = maphash.MakeSeed()

// tags is the model: the keys of a tag, a partition each.
var tags = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		at := map[string]int{}
		var parts [][]porcupine.Operation
		for _, op := range history {
			tag := op.Input.(input).tag
			i, known := at[tag]
			if !known {
				i = len(parts)
				at[tag], parts = i, append(parts, nil)
			}
			parts[i] = append(parts[i], op)
		}
		return parts
	},
	Init: func() any { return content{} },
	StepContext: func(_ context.Context, state, in, out any) (bool, any) {
		return state.(content).next(in.(input), out.(output))
	},
	Hash: func(state any) uint64 { return maphash.Comparable(hashSeed, state.(content)) },
	DescribeOperation: func(in, out any) string {
		op, seen := in.(input), out.(output)
		text := op.tag
		for i, c := range op.commands {
			text += " | " + c.String() + " → "
			if seen.unknown {
				text += "?"
			} else {
				text += string(seen.answers[i])
			}
		}
		return text
	},
	DescribeState: func(state any) string { return fmt.Sprintf("%q", state.(content)) },
}
