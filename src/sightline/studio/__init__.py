"""The studio: a page to draw a camera path on a picture, preview it, generate the film and look inside the model.

keyframes, depth, preview, session, jobs, library and inspector know nothing of the browser; app and the tabs connect them to it.
"""
