"""A hundred texts that would run as script if anything took them for markup."""

ACTS = ("window.pwned=1", "alert(1)", "top['pwned']=1", "(()=>{window.pwned=1})()")
FORMS = (
    "<script>{0}</script>",
    "<img src=x onerror={0}>",
    "<svg onload={0}>",
    "<svg><script>{0}</script></svg>",
    '"><img src=x onerror={0}>',
    "' onmouseover='{0}",
    '" autofocus onfocus="{0}',
    "<iframe srcdoc='<script>parent.{0}</script>'></iframe>",
    '<a href="javascript:{0}">press</a>',
    "javascript:{0}",
    "</title><script>{0}</script>",
    "</textarea><script>{0}</script>",
    "</style><script>{0}</script>",
    "<!--><script>{0}</script>",
    "<math><mtext><img src=x onerror={0}></mtext></math>",
    "<details open ontoggle={0}>",
    "<video><source onerror={0}></video>",
    "<body onload={0}>",
    '<form><button formaction="javascript:{0}">go</button></form>',
    '<object data="data:text/html,<script>{0}</script>"></object>',
    "<template><script>{0}</script></template>",
    "<style>@import 'javascript:{0}'</style>",
    '<base href="javascript:{0}//">',
    "${{{0}}}",
    "\u202e<script>{0}</script>\u0000",
)
PAYLOADS = tuple(form.format(act) for act in ACTS for form in FORMS)
