package jsonl

import (
	"encoding/base64"
	"encoding/json"
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"exactly/record"
)

// appendEnvelope appends the envelope of r around value, which is JSON without
// line breaks. Members that have nothing to say are left out.
func appendEnvelope(dst []byte, r *record.Record, value []byte) []byte {
	dst = append(dst, '{')
	if r.Key != nil {
		dst = append(appendBytes(dst, "key", r.Key), ',')
	}
	dst = append(dst, `"value":`...)
	dst = append(dst, value...)
	dst = append(dst, `,"timestamp":`...)
	dst = strconv.AppendInt(dst, r.Timestamp, 10)
	if len(r.Headers) > 0 {
		dst = append(dst, `,"headers":[`...)
		for i, h := range r.Headers {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(dst, '{')
			dst = append(appendBytes(dst, "key", []byte(h.Key)), ',')
			if h.Value == nil {
				dst = append(dst, `"value":null`...)
			} else {
				dst = appendBytes(dst, "value", h.Value)
			}
			dst = append(dst, '}')
		}
		dst = append(dst, ']')
	}
	dst = append(dst, `,"source":{`...)
	dst = appendBytes(dst, "topic", []byte(r.Source.Topic))
	dst = append(dst, `,"partition":`...)
	dst = strconv.AppendInt(dst, int64(r.Source.Partition), 10)
	dst = append(dst, `,"offset":`...)
	dst = strconv.AppendInt(dst, r.Source.Offset, 10)
	dst = append(dst, `,"timestamp":`...)
	dst = strconv.AppendInt(dst, r.Source.Timestamp, 10)
	if r.Sub != 0 {
		dst = append(dst, `,"sub":`...)
		dst = strconv.AppendInt(dst, int64(r.Sub), 10)
	}
	return append(dst, "}}"...)
}

// appendBytes appends a member: bytes that are UTF-8 as a string, others under
// name_base64.
func appendBytes(dst []byte, name string, b []byte) []byte {
	dst = append(dst, '"')
	dst = append(dst, name...)
	if !utf8.Valid(b) {
		dst = append(dst, `_base64":"`...)
		dst = base64.StdEncoding.AppendEncode(dst, b)
		return append(dst, '"')
	}
	dst = append(dst, `":`...)
	dst, _ = jsontext.AppendQuote(dst, b) // fails for bytes that are not UTF-8 only
	return dst
}

// envelope is a line that appendEnvelope wrote, as far as readers need it.
type envelope struct {
	Key       *string         `json:"key"`
	KeyBase64 []byte          `json:"key_base64"`
	Value     json.RawMessage `json:"value"`
	Timestamp int64           `json:"timestamp"`
	Source    *struct {
		Topic     string `json:"topic"`
		Partition int32  `json:"partition"`
		Offset    int64  `json:"offset"`
		Timestamp int64  `json:"timestamp"`
	} `json:"source"`
}

func (e *envelope) key() []byte {
	if e.Key != nil {
		return []byte(*e.Key)
	}
	return e.KeyBase64
}

func (e *envelope) position() *record.Position {
	if e.Source == nil {
		return nil
	}
	s := e.Source
	return &record.Position{
		Topic: s.Topic, Partition: s.Partition, Offset: s.Offset, LeaderEpoch: -1, Timestamp: s.Timestamp,
	}
}
