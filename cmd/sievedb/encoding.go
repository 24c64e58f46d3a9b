package main

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
)

// encoding is how keys and values are read and printed.
type encoding int

const (
	encText encoding = iota // as they are, or quoted as in Go where a terminal could not show them
	encHex
	encBase64
	encRaw
)

// text returns b as it is printed.
func (e encoding) text(b []byte) string {
	switch e {
	case encHex:
		return hex.EncodeToString(b)
	case encBase64:
		return base64.StdEncoding.EncodeToString(b)
	case encRaw:
		return string(b)
	}
	quoted := strconv.Quote(string(b))
	if plain := quoted[1 : len(quoted)-1]; plain == string(b) && plain != "" {
		return plain
	}
	return quoted
}

var errQuote = errors.New("it begins with a quotation mark, but is not a string quoted as in Go")

// decode is the inverse of text for a field of a line. Text that is not quoted stands for itself.
func (e encoding) decode(b []byte) ([]byte, error) {
	if e != encText {
		return e.argument(b)
	}
	if len(b) == 0 || b[0] != '"' {
		return b, nil
	}
	s, err := strconv.Unquote(string(b))
	if err != nil {
		return nil, errQuote
	}
	return []byte(s), nil
}

// argument decodes an argument. Text is never quoted there: the shell has quotes of its own.
func (e encoding) argument(b []byte) (out []byte, err error) {
	switch e {
	case encHex:
		out, err = hex.AppendDecode([]byte{}, b)
		if err != nil {
			return nil, fmt.Errorf("it is not hexadecimal: %w", err)
		}
	case encBase64:
		out, err = base64.StdEncoding.AppendDecode([]byte{}, b)
		if err != nil {
			return nil, fmt.Errorf("it is not base64: %w", err)
		}
	default:
		return b, nil
	}
	return out, nil
}
