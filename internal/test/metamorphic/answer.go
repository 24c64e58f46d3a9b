package metamorphic

import (
	"fmt"
	"strconv"
)

// Answers are texts, the same from the model and from the store.
const (
	answerDone     = "done"
	answerNotFound = "not found"
	answerReadOnly = "read-only"
	answerSound    = "sound, no leftovers"
)

func appendBool(dst []byte, b bool) []byte { return strconv.AppendBool(dst, b) }

// appendValues appends the values of several keys, nil for not found.
func appendValues(dst []byte, values [][]byte) []byte {
	for _, v := range values {
		if v == nil {
			dst = append(dst, "[-]"...)
			continue
		}
		dst = append(dst, '[')
		dst = appendShown(dst, v)
		dst = append(dst, ']')
	}
	return dst
}

// cursor is what both iterators have.
type cursor interface {
	First() bool
	Last() bool
	Next() bool
	Prev() bool
	SeekGE(key []byte) bool
	SeekLT(key []byte) bool
	SetBounds(lower, upper []byte)
	Refresh()
	Valid() bool
	Key() []byte
	Value() []byte
	Err() error
}

// appendMoves moves it and appends what it shows after each step.
func appendMoves(dst []byte, it cursor, steps []Step) []byte {
	for _, s := range steps {
		switch s.Move {
		case "first":
			dst = appendPosition(dst, it, it.First())
		case "last":
			dst = appendPosition(dst, it, it.Last())
		case "next":
			dst = appendPosition(dst, it, it.Next())
		case "prev":
			dst = appendPosition(dst, it, it.Prev())
		case "seekge":
			dst = appendPosition(dst, it, it.SeekGE(s.Key))
		case "seeklt":
			dst = appendPosition(dst, it, it.SeekLT(s.Key))
		case "setbounds":
			it.SetBounds(s.Key, s.Limit)
			dst = appendPosition(dst, it, false)
		case "refresh":
			it.Refresh()
			dst = appendPosition(dst, it, false)
		case "forward":
			for it.Next() {
				dst = appendPosition(dst, it, true)
			}
			dst = appendPosition(dst, it, false)
		case "backward":
			for it.Prev() {
				dst = appendPosition(dst, it, true)
			}
			dst = appendPosition(dst, it, false)
		default:
			panic("metamorphic: no such movement: " + s.Move)
		}
	}
	return dst
}

// appendPosition appends where it is; moved is what its movement returned.
func appendPosition(dst []byte, it cursor, moved bool) []byte {
	if moved != it.Valid() {
		return append(dst, "[moved and valid differ]"...)
	}
	if err := it.Err(); err != nil {
		return fmt.Appendf(dst, "[error: %v]", err)
	}
	if !moved {
		return append(dst, "[-]"...)
	}
	return appendEntry(dst, it.Key(), it.Value())
}

// appendEntry appends a key and its value; nil stands for a value that is not shown.
func appendEntry(dst, key, value []byte) []byte {
	dst = append(dst, '[')
	dst = strconv.AppendQuote(dst, string(key))
	if value != nil {
		dst = append(dst, '=')
		dst = appendShown(dst, value)
	}
	return append(dst, ']')
}
