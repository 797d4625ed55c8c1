"""The page for people: the API's own data as HTML, readable without JavaScript, live with it (docs/page.md).

router      the pages, each made of what the API's calls are made of
actions     what may be done from them, by whom, with the same as a `dwd` line and as curl
plots       what each probe found, remembered in a few kB a shoot, and drawn as SVG
site        templates, static files, and problems as pages for browsers
templates/  Jinja2, with autoescape
static/     one ES module, one style sheet, one icon: served as they are, with a hash of their content in the name
"""
