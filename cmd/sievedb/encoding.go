package main

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/sievedb/sievedb/internal/base/keyspace"
)

// encoding is how keys or values are read and printed. What text prints, decode reads, as an argument and in a line.
type encoding int

const (
	encText      encoding = iota // as they are, or quoted as in Go where a terminal could not show them
	encHex                       //
	encBase64                    //
	encRaw                       // the bytes, whatever they are
	encJSON                      // a string of JSON, or {"base64":"…"} for bytes that are not UTF-8
	encNamespace                 // of keys: [name]key for a key in a namespace, otherwise as encText
)

// encodings are the words for --key-format and --value-format. The last one is for keys only.
var encodings = map[string]encoding{
	"text": encText, "hex": encHex, "base64": encBase64, "raw": encRaw, "json": encJSON, "namespace": encNamespace,
}

// format is how keys and values are read and printed.
type format struct{ key, value encoding }

// text returns b as it is printed.
func (e encoding) text(b []byte) string {
	switch e {
	case encHex:
		return hex.EncodeToString(b)
	case encBase64:
		return base64.StdEncoding.EncodeToString(b)
	case encRaw:
		return string(b)
	case encJSON:
		j := jsonEncoder{}
		if utf8.Valid(b) {
			j.string(string(b))
		} else {
			j.put(`{"base64":"` + encBase64.text(b) + `"}`)
		}
		return string(j.dst)
	case encNamespace:
		return namespaced(b)
	}
	if isPlain(b) {
		return string(b)
	}
	return strconv.Quote(string(b))
}

// isPlain reports whether text prints b as it is: it has no control characters, which a terminal obeys, and no other
// reading. A lone dash stands for standard input.
func isPlain(b []byte) bool {
	if len(b) == 0 || b[0] == '"' || string(b) == "-" || !utf8.Valid(b) {
		return false
	}
	for _, r := range string(b) {
		if unicode.IsControl(r) || unicode.In(r, unicode.Bidi_Control, unicode.Zl, unicode.Zp) {
			return false
		}
	}
	return true
}

// namespaced returns a key as the names of its namespaces in brackets and the rest.
func namespaced(key []byte) string {
	var text strings.Builder
	for {
		name, prefix, ok := keyspace.Name(key)
		if !ok || keyspace.CheckName(name) != nil {
			break
		}
		key = key[prefix:]
		shown := encText.text([]byte(name))
		if shown[0] != '"' && strings.ContainsAny(name, "[]") {
			shown = strconv.Quote(name)
		}
		text.WriteString("[" + shown + "]")
	}
	switch {
	case len(key) == 0 && text.Len() > 0:
	case len(key) > 0 && key[0] == '[':
		text.WriteString(strconv.Quote(string(key)))
	default:
		text.WriteString(encText.text(key))
	}
	return text.String()
}

var (
	errQuote     = errors.New("it begins with a quotation mark, but is not a string quoted as in Go; the format raw takes it as it is")
	errNamespace = errors.New("it begins with a bracket, but is not [name]key")
)

// decode is the inverse of text, for an argument or a field of a line. Text that is not quoted stands for itself.
func (e encoding) decode(b []byte) (out []byte, err error) {
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
	case encRaw:
		return b, nil
	case encJSON:
		return decodeJSON(b)
	case encNamespace:
		return decodeNamespaced(b)
	default:
		if len(b) == 0 || b[0] != '"' {
			return b, nil
		}
		s, err := strconv.Unquote(string(b))
		if err != nil || !utf8.Valid(b) { // Unquote would replace bytes without a word
			return nil, errQuote
		}
		return []byte(s), nil
	}
	return out, nil
}

func decodeJSON(b []byte) ([]byte, error) {
	var text *string
	if err := json.Unmarshal(b, &text); err == nil && text != nil && utf8.Valid(b) {
		return []byte(*text), nil
	}
	var other struct{ Base64 *string }
	if err := json.Unmarshal(b, &other); err != nil || other.Base64 == nil {
		return nil, errors.New(`it is neither a string of JSON nor {"base64":"…"}`)
	}
	return encBase64.decode([]byte(*other.Base64))
}

// decodeNamespaced is the inverse of namespaced.
func decodeNamespaced(b []byte) ([]byte, error) {
	text, key := string(b), []byte{}
	for strings.HasPrefix(text, "[") {
		name, rest, ok := strings.Cut(text[1:], "]")
		if strings.HasPrefix(name, `"`) {
			quoted, err := strconv.QuotedPrefix(text[1:])
			if err != nil || !utf8.ValidString(quoted) {
				return nil, errNamespace
			}
			name, _ = strconv.Unquote(quoted) // QuotedPrefix has checked it
			rest, ok = strings.CutPrefix(text[1+len(quoted):], "]")
		}
		if !ok {
			return nil, errNamespace
		}
		if err := keyspace.CheckName(name); err != nil {
			return nil, err
		}
		key, text = keyspace.AppendPrefix(key, name), rest
	}
	rest, err := encText.decode([]byte(text))
	return append(key, rest...), err
}
