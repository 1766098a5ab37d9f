package extract

// HTML extracts an HTML body; contentType is its header's value or empty.
func (x *Extractor) HTML(page *Page, pageURL, contentType string, body []byte, opt Options) error {
	base, err := x.begin(page, pageURL)
	if err != nil {
		return err
	}
	x.html(page, base, contentType, body, opt)
	x.finish(page)
	return nil
}
