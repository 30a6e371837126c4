package kafka

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Message is one request, or one answer, on its way.
type Message struct {
	Key      kmsg.Key
	Version  int16
	ClientID string // of the client that has sent the request
	Broker   string // address of the broker
	Answer   bool

	corr     int32
	raw      []byte // the frame without its size
	req      kmsg.Request
	resp     kmsg.Response
	parsed   bool
	changed  bool
	question *Message // of an answer
}

var errShort = errors.New("the frame is too short")

// request reads the header of a request.
func request(broker string, raw []byte) (*Message, error) {
	r := kbin.Reader{Src: raw}
	m := &Message{Broker: broker, raw: raw, Key: kmsg.Key(r.Int16()), Version: r.Int16(), corr: r.Int32()}
	if id := r.NullableString(); id != nil {
		m.ClientID = *id
	}
	if !r.Ok() {
		return nil, errShort
	}
	return m, nil
}

// answer reads the header of the answer to q.
func answer(q *Message, raw []byte) (*Message, error) {
	if len(raw) < 4 {
		return nil, errShort
	}
	m := &Message{
		Key: q.Key, Version: q.Version, ClientID: q.ClientID, Broker: q.Broker, Answer: true,
		raw: raw, corr: int32(binary.BigEndian.Uint32(raw)), question: q,
	}
	if m.corr != q.corr {
		return nil, fmt.Errorf("the answer to request %d of kind %s has the number %d", q.corr, q.Key.Name(), m.corr)
	}
	return m, nil
}

// Request is the parsed request; of an answer the one that it answers. nil if
// it cannot be parsed. Only a rewriting may change it.
func (m *Message) Request() kmsg.Request {
	if m.Answer {
		return m.question.Request()
	}
	if m.parsed {
		return m.req
	}
	m.parsed = true
	req := m.Key.Request()
	if req == nil || m.Version > req.MaxVersion() {
		return nil
	}
	req.SetVersion(m.Version)
	r := kbin.Reader{Src: m.raw[8:]}
	r.NullableString()
	if req.IsFlexible() {
		kmsg.SkipTags(&r)
	}
	if !r.Ok() || req.ReadFrom(r.Src) != nil {
		return nil
	}
	m.req = req
	return req
}

// Response is the parsed answer, or nil if it cannot be parsed or this is a
// request. Only a rewriting may change it.
func (m *Message) Response() kmsg.Response {
	if !m.Answer || m.parsed {
		return m.resp
	}
	m.parsed = true
	resp := m.Key.Response()
	if resp == nil || m.Version > resp.MaxVersion() {
		return nil
	}
	resp.SetVersion(m.Version)
	r := kbin.Reader{Src: m.raw[4:]}
	if taggedHeader(resp) {
		kmsg.SkipTags(&r)
	}
	if !r.Ok() || resp.ReadFrom(r.Src) != nil {
		return nil
	}
	m.resp = resp
	return resp
}

// taggedHeader: the answer to ApiVersions never has tags, since the client may
// not yet know what the broker knows (KIP-511).
func taggedHeader(resp kmsg.Response) bool {
	return resp.IsFlexible() && resp.Key() != int16(kmsg.ApiVersions)
}

// frame gives the bytes to forward, with their size.
func (m *Message) frame() []byte {
	switch {
	case !m.changed:
		b := make([]byte, 4, 4+len(m.raw))
		binary.BigEndian.PutUint32(b, uint32(len(m.raw)))
		return append(b, m.raw...)
	case !m.Answer:
		return kmsg.NewRequestFormatter(kmsg.FormatterClientID(m.ClientID)).AppendRequest(nil, m.req, m.corr)
	}
	b := make([]byte, 4, 4+len(m.raw))
	b = kbin.AppendInt32(b, m.corr)
	if taggedHeader(m.resp) {
		b = append(b, 0)
	}
	b = m.resp.AppendTo(b)
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	return b
}

// expectsAnswer: a broker does not answer a produce without acknowledgements.
func (m *Message) expectsAnswer() bool {
	if m.Key != kmsg.Produce {
		return true
	}
	p, ok := m.Request().(*kmsg.ProduceRequest)
	return !ok || p.Acks != 0
}
