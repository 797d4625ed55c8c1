"""The web page: the API's own data as HTML, readable without JavaScript and live with it (docs/page.md).

router      the pages, built from the same data as the answers of the API
actions     permitted actions: as a form, as a `dwd` command line and as curl
plots       results of probes over six hours, kept in a few kB per shoot and drawn as SVG
site        templates, static files, and problems as pages for browsers
templates/  Jinja2, with autoescape
static/     one ES module, one style sheet, one icon: served as they are, with a hash of their content in the name
"""
